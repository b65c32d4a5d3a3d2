// The command line of flowrun.
#include "cli/run_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/io/commands.h"
#include "runtime/plan/plan.h"

namespace flow::cli {

namespace {

/// Flags with their values.
std::vector<std::vector<std::string>> shaping_words(const RunOptions& options) {
  std::vector<std::vector<std::string>> overrides;
  const auto add = [&](const char* flag, const std::vector<std::string>& values) {
    for (const std::string& value : values) overrides.push_back({flag, value});
  };
  add("--set", options.sets);
  add("--input", options.inputs);
  add("--watch", options.watches);
  add("--watch-diff", options.watch_diffs);
  add("--watch-scope", options.watch_scopes);
  if (options.steps) add("--steps", {std::to_string(*options.steps)});
  return overrides;
}

/// A whole number within these bounds.
CLI::Validator count(int64_t min, int64_t max) {
  const auto wrong = [=](const std::string& text) -> std::string {
    const auto number = whole_number(text);
    if (number && *number >= min && *number <= max) return {};
    return fmt::format("`{}` is no whole number from {} to {}", text, min, max);
  };
  return {wrong, "", "count"};
}

CLI::Validator is_folder() {
  const auto wrong = [](const std::string& text) -> std::string {
    std::error_code failed;
    if (std::filesystem::is_directory(text, failed)) return {};
    return fmt::format("`{}` is no folder", text);
  };
  return {wrong, "", "folder"};
}

}  // namespace

void add_options(CLI::App& app, RunOptions& options) {
  app.add_option("JOB", options.job, "the job to run; not needed for a file with a single one")
      ->required()
      ->type_name("");
  app.add_option("FILE", options.file, "a job file or a plan")->type_name("");
  app.add_option("-o,--output", options.directory,
                 "where outputs go; default: the next free runs/<file>-<job>-NNN")
      ->type_name("DIR");
  const auto add_many = [&app](const char* flag, std::vector<std::string>& values, const char* type,
                               const char* text) {
    app.add_option(flag, values, text)->type_name(type)->expected(1)->take_all();
  };
  add_many("--set", options.sets, "PATH=YAML", "change a node of the job file, as in vars.lr=0.02");
  add_many("--input", options.inputs, "NAME=SPEC", "give an input: @x.npy, or random_uniform:-1:1");
  add_many("--watch", options.watches, "NAME[:N]", "write this tensor every N steps");
  add_many("--watch-diff", options.watch_diffs, "NAME[:N]", "write its gradient every N steps");
  add_many("--watch-scope", options.watch_scopes, "NAME[:N]",
           "write all that is made under this name, and the gradients");
  app.add_option("--load", options.load,
                 "start from this checkpoint, run or .npz; `none`: from fresh variables")
      ->type_name("CKPT");
  add_many("--load-partial", options.load_partial, "GLOB",
           "variables that may be missing or misshapen there: they start anew");
  app.add_option("--save", options.save, "leave a final checkpoint there; `none`: no copy")
      ->type_name("PATH");
  app.add_flag("--resume", options.resume, "continue the run in DIR to the same bits, or start it");
  app.add_flag("--verify-data", options.verify_data,
               "with --resume: read all data files again, not only those that changed");
  app.add_option("--steps", options.steps, "stop at this global step")
      ->type_name("N")
      ->check(count(0, plan::kMostSteps));
  app.add_option("--device", options.device, "auto, cpu or gpu")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}));
  app.add_flag("--eager", options.eager, "on a GPU: run without graphs, to the same bits");
  app.add_option("--threads", options.threads, "at most so many threads compute; changes no number")
      ->type_name("N")
      ->check(count(1, 1024));
  app.add_option("--root", options.root, "what the paths of the job are relative to")
      ->type_name("DIR")
      ->check(is_folder());
  app.add_flag("--force", options.force, "remove what an earlier run left in DIR");
  app.add_flag("--dry-run", options.dry_run,
               "prepare everything, say how much memory it takes, run nothing");
  app.add_flag("--profile", options.profile,
               "say at the end where the time of a step went; DIR/profile.json is for "
               "ui.perfetto.dev");
  app.add_flag("--no-commands", options.no_commands,
               "run no command sinks; `flowc show --commands` lists them");
  app.add_flag("--quiet", options.quiet, "no progress and no remarks");
  app.add_flag("--json", options.json, "progress and print sinks as objects, one a line");
  app.footer(
      "Exit status: 0 done; 1 a check failed (a loss, a tensor that is checked, or a variable to "
      "be "
      "saved is not finite); 2 the request is wrong; 3 the run failed; 70 a defect of flow.\n"
      "Example: flowrun train jobs/lenet.yaml -o out --set vars.lr=0.05");
}

void read_words(RunOptions& options) {
  if (options.file.empty()) std::swap(options.job, options.file);
}

std::vector<std::string> overrides_of(const RunOptions& options) {
  std::vector<std::string> lines;
  for (const std::vector<std::string>& words : shaping_words(options))
    lines.push_back(join(words, " "));
  return lines;
}

std::string next_command(const RunOptions& options, const plan::Job& job,
                         const fs::path& directory) {
  std::vector<std::string> words = {"flowrun",          job.name,
                                    options.file,       "-o",
                                    directory.string(), job.train ? "--resume" : "--force"};
  for (const std::vector<std::string>& more : shaping_words(options))
    words.insert(words.end(), more.begin(), more.end());
  if (options.load && !job.train) {
    words.insert(words.end(), {"--load", *options.load});
    for (const std::string& glob : options.load_partial)
      words.insert(words.end(), {"--load-partial", glob});
  }
  if (options.save) words.insert(words.end(), {"--save", *options.save});
  if (options.root) words.insert(words.end(), {"--root", *options.root});
  if (options.device != "auto") words.insert(words.end(), {"--device", options.device});
  if (options.no_commands) words.emplace_back("--no-commands");
  return command_line(words);
}

}  // namespace flow::cli
