// The command line of flowrun, and the requests to the compiler and to the run that it implies.
#include "cli/flowrun/flowrun.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "cli/shared/command_line.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/commands.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {
namespace {

/// Returns the flags that influence the run, with their values.
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

/// Accepts a whole number from `min` to `max`.
CLI::Validator count(int64_t min, int64_t max) {
  const auto wrong = [=](const std::string& text) -> std::string {
    const auto number = whole_number(text);
    if (number && *number >= min && *number <= max) return {};
    return fmt::format("`{}` is not a whole number from {} to {}", text, min, max);
  };
  return {wrong, "", "count"};
}

/// Accepts "true", which stands for a flag without a value, or a number of steps.
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

/// Adds JOB and FILE. A single word is the file, because JOB is optional.
void add_arguments(CLI::App& app, RunOptions& options) {
  const auto read_first = [&app, &options](const std::string& word) {
    CLI::Option* file = app.get_option("FILE");
    (file->count() > 0 ? options.job : options.file) = word;
    file->required(false);
  };
  app.add_option_function<std::string>("JOB", read_first,
                                       "job to run; omit it if FILE has only one job")
      ->type_name("");
  Flags(app).argument("FILE", options.file, "job file or plan; `-` is standard input");
}

}  // namespace

void add_options(CLI::App& app, RunOptions& options) {
  add_arguments(app, options);
  Flags flags(app);
  flags.group("Run directory");
  flags.value("-o,--output", "DIR", options.directory,
              "run directory; default: the next free runs/<file>-<job>-NNN");
  flags.flag("--force", options.force, "remove the files of an earlier run from DIR first");
  flags.flag("--resume", options.resume, "resume the run in DIR bit-identically, or start it");
  flags.flag("--verify-data", options.verify_data,
             "with --resume: read every data file again, not only changed ones");

  flags.group("Job");
  flags.many("--set", "PATH=YAML", options.sets,
             "set a value in the job file, as in vars.lr=0.02; repeatable");
  flags.many("--input", "NAME=SPEC", options.inputs,
             "feed an input: @FILE.npy or random_uniform:-1:1; repeatable");
  flags.value("--steps", "N", options.steps, "stop at this global step",
              count(0, plan::kMostSteps));
  flags.value("--root", "DIR", options.root,
              "base directory of the job's paths; default: the job file's directory", is_folder());

  flags.group("Watched tensors");
  flags.many("--watch", "NAME[:N]", options.watches,
             "write this tensor every N steps; default: 1; repeatable");
  flags.many("--watch-diff", "NAME[:N]", options.watch_diffs,
             "write the gradient of this tensor every N steps; repeatable");
  flags.many("--watch-scope", "NAME[:N]", options.watch_scopes,
             "write all tensors and gradients below this name every N steps; repeatable");

  flags.group("Checkpoints");
  flags.many("--load", "CKPT", options.load,
             "load variables from a checkpoint, run, .safetensors or .npz; `none`: initialize "
             "them; repeatable: of what several have, the last counts");
  flags.many("--load-partial", "GLOB", options.load_partial,
             "initialize matching variables if CKPT lacks them or has another shape; repeatable");
  flags.flag("--ema", options.ema,
             "load averages of variables, where the checkpoint has them (`ema` of an optimizer)");
  flags.value("--save", "PATH", options.save, "copy the final checkpoint to PATH; `none`: no copy");

  flags.group("Device");
  flags.choice("--device", options.device, {"auto", "cpu", "gpu"},
               "default: auto, a GPU if one is usable");
  flags.value("--threads", "N", options.threads,
              "maximum number of compute threads; does not affect results", count(1, 1024));
  flags.value("--permute-rows", "SEED", options.permute_rows,
              "compute the rows of each batch in a random order, and return them in theirs: to "
              "measure rounding",
              count(0, std::numeric_limits<int64_t>::max()));
  flags.flag("--eager", options.eager,
             "on a GPU: launch each step without CUDA graphs; does not affect results");
  flags.flag("--no-fusion", options.no_fusion,
             "on a GPU: compute each bias, ReLU and its gradient in a kernel of its own");
  flags.flag("--tune", options.tune,
             "on a GPU: time the algorithms of libraries and keep the fastest; affects results");

  flags.group("Several processes");
  flags.flag("--distributed", options.distributed,
             "make the processes of one mpirun or srun one run: its ranks");
  flags.choice("--mpi", options.mpi, {"openmpi", "mpich"},
               "MPI library; default: the one of the launcher");
  flags.value("--rank-timeout", "SECONDS", options.rank_timeout,
              "end the run if a rank is silent for this long; default: 120", count(1, 1'000'000));

  flags.group("Reports");
  flags.value("--tensorboard", "TBDIR", options.tensorboard,
              "write scalars, histograms of stats sinks and the graph to TBDIR for TensorBoard");
  flags.flag("--fingerprint", options.fingerprint,
             fmt::format("keep fingerprints of all tensors every {} steps, for flowdiff --first; "
                         "--fingerprint=N: every N",
                         kFingerprintEvery),
             is_interval());
  flags.value(
      "--fingerprint-size", "MIB", options.fingerprint_size,
      fmt::format("size of their file, which keeps the last steps; default: {}", kFingerprintSize),
      count(1, 1 << 20));
  flags.flag("--dry-run", options.dry_run, "prepare the run and print its memory use; run nothing");
  flags.flag("--profile", options.profile,
             "print where the time goes; write DIR/profile.json for ui.perfetto.dev");
  flags.value("--capture", "ENTRY@STEP", options.capture,
              "write what ENTRY reads and makes in STEP to DIR/capture, and end the run there");
  flags.flag("--no-commands", options.no_commands,
             "start no command sinks; `flowc show --commands` lists them");
  flags.flag("--quiet", options.quiet, "print no progress and no remarks");
  flags.flag("--json", options.json, "print progress and print sinks as JSON, an object per line");

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
