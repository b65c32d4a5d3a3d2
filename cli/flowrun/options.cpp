// The command line of flowrun, and what it asks of the compiler and of a run.
#include "cli/flowrun/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "cli/shared/console.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/commands.h"
#include "runtime/plan/model/plan.h"

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
  if (options.tune) overrides.push_back({"--tune"});
  if (options.no_fusion) overrides.push_back({"--no-fusion"});
  return overrides;
}

/// A whole number within these bounds.
CLI::Validator count(int64_t min, int64_t max) {
  const auto wrong = [=](const std::string& text) -> std::string {
    const auto number = whole_number(text);
    if (number && *number >= min && *number <= max) return {};
    return fmt::format("`{}` is not a whole number from {} to {}", text, min, max);
  };
  return {wrong, "", "count"};
}

/// What a flag alone counts as, or a number after it.
CLI::Validator is_interval() {
  const auto wrong = [](std::string& text) -> std::string {
    return text == "true" ? "" : count(1, plan::kMostSteps)(text);
  };
  return {wrong, "", "interval"};
}

CLI::Validator is_folder() {
  const auto wrong = [](const std::string& text) -> std::string {
    std::error_code failed;
    if (std::filesystem::is_directory(text, failed)) return {};
    return fmt::format("`{}` is not a directory", text);
  };
  return {wrong, "", "folder"};
}

/// A single word is the file: JOB may be left out.
void add_arguments(CLI::App& app, RunOptions& options) {
  const auto read_first = [&app, &options](const std::string& word) {
    CLI::Option* file = app.get_option("FILE");
    (file->count() > 0 ? options.job : options.file) = word;
    file->required(false);
  };
  app.add_option_function<std::string>("JOB", read_first,
                                       "job to run; omit it if FILE has only one job")
      ->type_name("");
  app.add_option("FILE", options.file, "job file or plan; `-` is standard input")
      ->required()
      ->type_name("");
}

}  // namespace

void add_options(CLI::App& app, RunOptions& options) {
  add_arguments(app, options);
  const auto group = [&app](const char* name) { app.option_defaults()->group(name); };
  const auto add_many = [&app](const char* flag, std::vector<std::string>& values, const char* type,
                               const char* text) {
    repeatable(app.add_option(flag, values, text)->type_name(type));
  };

  group("Run directory");
  app.add_option("-o,--output", options.directory,
                 "run directory; default: the next free runs/<file>-<job>-NNN")
      ->type_name("DIR");
  app.add_flag("--force", options.force, "remove the files of an earlier run from DIR first");
  app.add_flag("--resume", options.resume, "resume the run in DIR bit-identically, or start it");
  app.add_flag("--verify-data", options.verify_data,
               "with --resume: read every data file again, not only changed ones");

  group("Job");
  add_many("--set", options.sets, "PATH=YAML",
           "set a value in the job file, as in vars.lr=0.02; repeatable");
  add_many("--input", options.inputs, "NAME=SPEC",
           "feed an input: @FILE.npy or random_uniform:-1:1; repeatable");
  app.add_option("--steps", options.steps, "stop at this global step")
      ->type_name("N")
      ->check(count(0, plan::kMostSteps));
  app.add_option("--root", options.root,
                 "base directory of the job's paths; default: the job file's directory")
      ->type_name("DIR")
      ->check(is_folder());

  group("Watched tensors");
  add_many("--watch", options.watches, "NAME[:N]",
           "write this tensor every N steps; default: 1; repeatable");
  add_many("--watch-diff", options.watch_diffs, "NAME[:N]",
           "write the gradient of this tensor every N steps; repeatable");
  add_many("--watch-scope", options.watch_scopes, "NAME[:N]",
           "write all tensors and gradients below this name every N steps; repeatable");

  group("Checkpoints");
  add_many("--load", options.load, "CKPT",
           "load variables from a checkpoint, run, .safetensors or .npz; `none`: initialize them; "
           "repeatable: of what several have, the last counts");
  add_many("--load-partial", options.load_partial, "GLOB",
           "initialize matching variables if CKPT lacks them or has another shape; repeatable");
  app.add_flag("--ema", options.ema,
               "load averages of variables, where the checkpoint has them (`ema` of an optimizer)");
  app.add_option("--save", options.save, "copy the final checkpoint to PATH; `none`: no copy")
      ->type_name("PATH");

  group("Device");
  app.add_option("--device", options.device, "default: auto, a GPU if one is usable")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}));
  app.add_option("--threads", options.threads,
                 "maximum number of compute threads; does not affect results")
      ->type_name("N")
      ->check(count(1, 1024));
  app.add_option("--permute-rows", options.permute_rows,
                 "compute the rows of each batch in a random order, and return them in theirs: to "
                 "measure rounding")
      ->type_name("SEED")
      ->check(count(0, std::numeric_limits<int64_t>::max()));
  app.add_flag("--eager", options.eager,
               "on a GPU: launch each step without CUDA graphs; does not affect results");
  app.add_flag("--no-fusion", options.no_fusion,
               "on a GPU: compute each bias, ReLU and its gradient in a kernel of its own");
  app.add_flag("--tune", options.tune,
               "on a GPU: time the algorithms of libraries and keep the fastest; affects results");

  group("Several processes");
  app.add_flag("--distributed", options.distributed,
               "make the processes of one mpirun or srun one run: its ranks");
  app.add_option("--mpi", options.mpi, "MPI library; default: the one of the launcher")
      ->check(CLI::IsMember({"openmpi", "mpich"}));
  app.add_option("--rank-timeout", options.rank_timeout,
                 "end the run if a rank is silent for this long; default: 120")
      ->type_name("SECONDS")
      ->check(count(1, 1'000'000));

  group("Reports");
  app.add_option("--tensorboard", options.tensorboard,
                 "write scalars, histograms of stats sinks and the graph to TBDIR for TensorBoard")
      ->type_name("TBDIR");
  app.add_flag("--fingerprint", options.fingerprint,
               fmt::format("keep fingerprints of all tensors every {} steps, for flowdiff --first; "
                           "--fingerprint=N: every N",
                           kFingerprintEvery))
      ->check(is_interval());
  app.add_option("--fingerprint-size", options.fingerprint_size,
                 fmt::format("size of their file, which keeps the last steps; default: {}",
                             kFingerprintSize))
      ->type_name("MIB")
      ->check(count(1, 1 << 20));
  app.add_flag("--dry-run", options.dry_run,
               "prepare the run and print its memory use; run nothing");
  app.add_flag("--profile", options.profile,
               "print where the time goes; write DIR/profile.json for ui.perfetto.dev");
  app.add_option("--capture", options.capture,
                 "write what ENTRY reads and makes in STEP to DIR/capture, and end the run there")
      ->type_name("ENTRY@STEP");
  app.add_flag("--no-commands", options.no_commands,
               "start no command sinks; `flowc show --commands` lists them");
  app.add_flag("--quiet", options.quiet, "print no progress and no remarks");
  app.add_flag("--json", options.json,
               "print progress and print sinks as JSON, an object per line");

  app.footer(
      "Exit status:\n"
      "  0   success\n"
      "  1   a check failed: a loss, a checked tensor or a variable to save is not finite\n"
      "  2   invalid request or job file\n"
      "  3   the run failed\n"
      "  70  bug in flowrun\n"
      "\n"
      "Examples:\n"
      "  flowrun train jobs/lenet.yaml\n"
      "  flowrun train jobs/lenet.yaml -o out --set vars.lr=0.05\n"
      "  flowrun train jobs/lenet.yaml -o out --resume --steps 2000");
}

std::vector<std::string> overrides_of(const RunOptions& options) {
  std::vector<std::string> lines;
  for (const std::vector<std::string>& words : shaping_words(options))
    lines.push_back(join(words, " "));
  return lines;
}

std::optional<exec::FingerprintOptions> fingerprints_of(const RunOptions& options) {
  if (options.fingerprint.empty()) return {};
  return exec::FingerprintOptions{
      whole_number(options.fingerprint).value_or(kFingerprintEvery),
      static_cast<uint64_t>(options.fingerprint_size.value_or(kFingerprintSize)) << 20};
}

std::string next_command(const RunOptions& options, const plan::Job& job, const fs::path& directory,
                         const std::vector<std::string>& launcher) {
  std::vector<std::string> words = launcher;
  words.insert(words.end(), {"flowrun", job.name, options.file, "-o", directory.string(),
                             job.train ? "--resume" : "--force"});
  for (const std::vector<std::string>& more : shaping_words(options))
    words.insert(words.end(), more.begin(), more.end());
  if (!options.load.empty() && !job.train) {
    for (const std::string& load : options.load) words.insert(words.end(), {"--load", load});
    for (const std::string& glob : options.load_partial)
      words.insert(words.end(), {"--load-partial", glob});
    if (options.ema) words.emplace_back("--ema");
  }
  if (options.save) words.insert(words.end(), {"--save", *options.save});
  if (options.root) words.insert(words.end(), {"--root", *options.root});
  if (options.device != "auto") words.insert(words.end(), {"--device", options.device});
  if (options.tensorboard) words.insert(words.end(), {"--tensorboard", *options.tensorboard});
  if (!options.fingerprint.empty())
    words.push_back(options.fingerprint == "true" ? "--fingerprint"
                                                  : "--fingerprint=" + options.fingerprint);
  if (options.fingerprint_size)
    words.insert(words.end(), {"--fingerprint-size", std::to_string(*options.fingerprint_size)});
  if (options.no_commands) words.emplace_back("--no-commands");
  if (options.distributed) words.emplace_back("--distributed");
  if (options.mpi) words.insert(words.end(), {"--mpi", *options.mpi});
  return command_line(words);
}

CompileRequest compile_request(const RunOptions& options, bool gpu) {
  CompileRequest request;
  request.file = options.file;
  request.sets = options.sets;
  request.watches = options.watches;
  request.watch_diffs = options.watch_diffs;
  request.watch_scopes = options.watch_scopes;
  if (!options.job.empty()) request.job = options.job;
  if (gpu) request.target.device = plan::DeviceKind::kGpu;
  request.target.forced = options.device != "auto";
  return request;
}

std::vector<std::pair<std::string, std::string>> inputs_of(const RunOptions& options) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const std::string& input : options.inputs) {
    const size_t equals = input.find('=');
    if (equals == std::string::npos)
      throw RequestError(fmt::format("--input `{}` has no `=`; expected NAME=SPEC", input),
                         "write NAME=@FILE.npy or NAME=random_uniform:-1:1");
    inputs.emplace_back(input.substr(0, equals), input.substr(equals + 1));
  }
  return inputs;
}

}  // namespace flow::cli
