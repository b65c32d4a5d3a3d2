// The command line of `flowrun verify`.
#include "cli/flowrun/verify_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "cli/shared/console.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

/// Those of `all` that are named, in their order; all of them where none is.
template <typename Info>
std::vector<const Info*> chosen(std::span<const Info> all, const std::vector<std::string>& names,
                                const char* flag, const char* what) {
  std::vector<std::string> known;
  for (const Info& info : all) known.emplace_back(info.name);
  for (const std::string& name : names) {
    if (std::ranges::count(known, name) > 0) continue;
    const auto near = suggest(name, known);
    throw RequestError(fmt::format("{}: unknown {} `{}`", flag, what, name),
                       near.empty() ? fmt::format("use one of {}", join(known, ", "))
                                    : fmt::format("did you mean `{}`?", near.front()));
  }
  std::vector<const Info*> found;
  for (const Info& info : all)
    if (names.empty() || std::ranges::count(names, info.name) > 0) found.push_back(&info);
  return found;
}

/// "  repeat     run twice"
template <typename Info>
std::string list(std::span<const Info> all) {
  std::string text;
  for (const Info& info : all) text += fmt::format("  {:<12}{}\n", info.name, info.doc);
  return text;
}

void add_shaping(CLI::App& command, RunOptions& run) {
  const auto add_many = [&](const char* flag, std::vector<std::string>& values, const char* type,
                            const char* text) {
    repeatable(command.add_option(flag, values, text)->type_name(type));
  };
  add_many("--set", run.sets, "PATH=YAML", "set a value in the job file; repeatable");
  add_many("--input", run.inputs, "NAME=SPEC", "feed an input, as in a run; repeatable");
  add_many("--watch", run.watches, "NAME[:N]", "also compare this tensor; repeatable");
  add_many("--watch-diff", run.watch_diffs, "NAME[:N]",
           "also compare the gradient of this tensor; repeatable");
  command.add_option("--root", run.root, "base directory of the job's paths")->type_name("DIR");
  add_many("--load", run.load, "CKPT", "load variables, as in a run; repeatable");
  add_many("--load-partial", run.load_partial, "GLOB",
           "initialize matching variables if CKPT lacks them; repeatable");
  command.add_option("--device", run.device, "default: auto, a GPU if one is usable")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}));
}

}  // namespace

bool asks_to_verify(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1] != kVerifyCommand) return false;
  const std::vector<std::string> words = arguments_in(app, argc, argv);
  std::error_code unknown;
  return words.size() != 2 || (words[1] != "-" && !fs::exists(words[1], unknown));
}

CLI::App* declare_verify(CLI::App& app, VerifyOptions& options) {
  CLI::App* command =
      app.add_subcommand(std::string(kVerifyCommand),
                         "Check that a job computes the same numbers in every way it can run");
  command->add_option("JOB", options.run.job, "job to check")->required()->type_name("");
  command->add_option("FILE", options.run.file, "job file or plan")->required()->type_name("");
  const auto group = [&](const char* name) { command->option_defaults()->group(name); };
  const auto add_names = [&](const char* flag, std::vector<std::string>& names, const char* type,
                             const char* text) {
    repeatable(command->add_option(flag, names, text)->type_name(type)->delimiter(','));
  };
  group("Checks");
  add_names("--only", options.only, "NAME,...", "check only these properties");
  command->add_option("--steps", options.steps, "run this many steps; default: 20")->type_name("N");
  command->add_option("--at", options.at, "resume, or damage, after step N; default: the middle")
      ->type_name("N");
  command->add_flag("--commands", options.commands, "start command sinks");
  group("Job");
  add_shaping(*command, options.run);
  group("Damage");
  command->add_flag("--prove", options.prove,
                    "damage the state of runs, and report which properties notice");
  add_names("--damage", options.damages, "KIND,...", "with --prove: only these kinds of damage");
  command->add_flag("--strict", options.strict, "with --prove: fail if damage stays unnoticed");
  group("Reports");
  command->add_flag("--json", options.json, "print one JSON object");
  command->add_option("--junit", options.junit, "write a JUnit report; `-` is standard output")
      ->type_name("FILE");
  command->footer(fmt::format(
      "Runs the job several times for a few steps in a temporary directory. It compares every\n"
      "returned and watched tensor, every variable, optimizer slot and metric bit for bit. Jobs\n"
      "that it calls run once. A property that does not apply prints n/a and the reason.\n"
      "\n"
      "Properties:\n{}"
      "\n"
      "Kinds of damage:\n{}"
      "\n"
      "`flowrun verify FILE` runs the job `verify` of an existing FILE.\n"
      "\n"
      "Exit status:\n"
      "  0   no property differs\n"
      "  1   a property differs; with --strict, also damage that stays unnoticed\n"
      "  2   invalid request or job file\n"
      "  3   a run failed\n"
      "  70  bug in flowrun\n"
      "\n"
      "Examples:\n"
      "  flowrun verify train lenet.yaml\n"
      "  flowrun verify train lenet.yaml --only resume,threads --prove --junit verify.xml",
      list(verify::all_properties()), list(verify::all_damages())));
  return command;
}

std::vector<const verify::Property*> chosen_properties(const VerifyOptions& options) {
  return chosen(verify::all_properties(), options.only, "--only", "property");
}

std::vector<const verify::DamageInfo*> chosen_damages(const VerifyOptions& options) {
  return chosen(verify::all_damages(), options.damages, "--damage", "kind of damage");
}

}  // namespace flow::cli
