// Implements `flowdiff calibrate`, which runs a job with several settings and derives tolerances
// from the spread of the results.
#include "cli/flowdiff/commands.h"

#include <fmt/format.h>

#include <map>

#include "cli/shared/command_line.h"
#include "cli/shared/console.h"
#include "cli/shared/reports.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/compare/tolerance.h"

namespace flow::cli {
namespace {

/// The settings in which a run differs from the reference.
struct Variation {
  std::string name;
  std::vector<std::string> words = {};
  std::map<std::string, std::string> environment = {};
};

std::vector<Variation> variations(const std::string& job) {
  const auto set = [&](const char* key, const char* value) {
    return std::vector<std::string>{"--set", fmt::format("jobs.{}.{}={}", job, key, value)};
  };
  return {{"1 thread", {"--threads", "1"}},
          {"2 threads", {"--threads", "2"}},
          {"4 threads", {"--threads", "4"}},
          {"AVX2", {}, {{"ONEDNN_MAX_CPU_ISA", "AVX2"}}},
          {"SSE4.1", {}, {{"ONEDNN_MAX_CPU_ISA", "SSE41"}}},
          {"1 shard", set("shards", "1")},
          {"2 shards", set("shards", "2")},
          {"4 shards", set("shards", "4")},
          {"float64", set("precision", "float64")}};
}

/// Returns the permutations, which are meaningless for a job whose rows are not alike.
std::vector<Variation> permutations() {
  return {{"rows in another order", {"--permute-rows", "1"}},
          {"rows in a third order", {"--permute-rows", "2"}}};
}

/// Returns the flags of the job that all runs share.
std::vector<std::string> flags_of(const CalibrateOptions& options) {
  std::vector<std::string> words;
  for (const std::string& set : options.sets) words.insert(words.end(), {"--set", set});
  for (const std::string& watch : options.watches) words.insert(words.end(), {"--watch", watch});
  if (options.steps) words.insert(words.end(), {"--steps", std::to_string(*options.steps)});
  return words;
}

/// Returns the command that repeats the measurement.
std::string repeating_command(const CalibrateOptions& options) {
  std::vector<std::string> words = {"flowdiff", "calibrate", options.job, options.file};
  for (std::string& word : flags_of(options)) words.push_back(std::move(word));
  words.insert(words.end(), {"-o", options.output, "--force"});
  return command_line(words);
}

class Runner {
 public:
  explicit Runner(const CalibrateOptions& options) : options_(options) {}

  /// Returns the directory of a run, or nothing if flowrun refuses the run, after reporting that.
  std::optional<fs::path> run(const Variation& variation) {
    const fs::path out = flowrun_.directory() / std::to_string(++count_);
    std::vector<std::string> words = {options_.job, options_.file, "-o",
                                      out.string(), "--quiet",     "--no-commands"};
    for (std::string& word : flags_of(options_)) words.push_back(std::move(word));
    words.insert(words.end(), variation.words.begin(), variation.words.end());
    const std::string problem = flowrun_.run(words, variation.environment);
    if (problem.empty()) return out;
    print_to_stderr(fmt::format("flowdiff: {}: not measured: {}\n", variation.name, problem));
    return {};
  }

 private:
  const CalibrateOptions& options_;
  const FlowrunChild flowrun_{"flowdiff"};
  int count_ = 0;
};

void print_spreads(const std::vector<compare::ArraySpread>& spreads) {
  Table table;
  table.row({"array", "spread", "of its rms", "tolerance", "last step", "worst setting"});
  for (const size_t column : {1, 2, 3, 4}) table.align_right(column);
  for (const compare::ArraySpread& spread : spreads)
    table.row({spread.name, fmt::format("{:.2e}", spread.spread),
               fmt::format("{:.1e}", spread.relative), fmt::format("{:.0e}", spread.tolerance),
               spread.last_step ? std::to_string(*spread.last_step) : "",
               spread.worst.empty() ? "-" : spread.worst});
  print(table.str());
}

/// Throws RequestError unless the output is new or, with --force, a file of tolerances.
void check_target(const CalibrateOptions& options) {
  std::error_code unknown;
  const fs::path path = options.output;
  if (fs::exists(path, unknown) && !options.force)
    throw RequestError(fmt::format("{} exists", options.output), "replace it with --force");
  check_output("-o", path, Output::kTolerances, {options.file});
  if (fs::is_regular_file(path, unknown) &&
      ("\n" + read_text(path)).find("\narrays:") == std::string::npos)
    throw RequestError(
        fmt::format("-o {} would overwrite a file without tolerances", options.output),
        "choose another name, or remove the file");
  check_writable("-o", path);
}

}  // namespace

CLI::App* declare_calibrate(CLI::App& app, CalibrateOptions& options) {
  CLI::App* command = app.add_subcommand("calibrate", "Measure tolerances of a job");
  Flags flags(*command);
  flags.argument("JOB", options.job, "job to run");
  flags.argument("FILE", options.file, "job file");
  flags.value("-o,--output", "TOLERANCES", options.output, "the tolerances.yaml to write")
      ->required();
  flags.many("--set", "PATH=YAML", options.sets, "override a key, as in flowrun; repeatable");
  flags.many("--watch", "GLOB", options.watches, "watch tensors, as in flowrun; repeatable");
  flags.value("--steps", "N", options.steps, "steps to run");
  flags.flag("--force", options.force, "replace the file");
  command->footer(
      "Runs the job with 1, 2 and 4 threads, with older instruction sets, with 1, 2 and 4 shards\n"
      "and in float64. Then it permutes the rows of each batch. The tolerance of an array is four\n"
      "times the largest error. Where errors exceed 1e-3 of the root mean square, training\n"
      "amplifies rounding: later steps are not judged. Commands of hooks do not run.\n"
      "\n"
      "Example:\n"
      "  flowdiff calibrate train lenet.yaml --steps 20 -o golden/tolerances.yaml");
  return command;
}

int run_calibrate(const CalibrateOptions& options) {
  check_target(options);
  if (options.steps && *options.steps < 1)
    throw RequestError("--steps: expected at least 1", "name a number of steps");
  Runner runner(options);
  const auto reference = runner.run({"reference"});
  if (!reference)
    throw RunError("the job does not run", "run it with flowrun and correct its errors");
  const auto expected = compare::list_side(*reference);
  std::vector<compare::Setting> settings;
  const auto measure = [&](const Variation& variation, const auto& keeps) {
    const auto out = runner.run(variation);
    if (!out) return;
    compare::Setting setting{variation.name, compare::list_side(*out)};
    if (keeps(setting)) settings.push_back(std::move(setting));
  };
  for (const Variation& variation : variations(options.job))
    measure(variation, [](const auto&) { return true; });
  if (settings.empty()) throw RunError("no setting could be measured");
  const auto others = compare::measure_spreads(expected, settings);
  for (const Variation& variation : permutations())
    measure(variation, [&](const compare::Setting& setting) {
      if (!compare::computes_otherwise(expected, others, setting)) return true;
      print_to_stderr(fmt::format("flowdiff: {}: not measured: the order of rows changes results\n",
                                  variation.name));
      return false;
    });
  const auto spreads = compare::measure_spreads(expected, settings);
  if (spreads.empty()) throw RequestError("the job writes no array", "add `returns` or --watch");
  std::vector<std::string> names;
  for (const compare::Setting& setting : settings) names.push_back(setting.name);
  write_text_atomically(options.output,
                        compare::tolerances_text(spreads, names, repeating_command(options)));
  print_spreads(spreads);
  return kDone;
}

}  // namespace flow::cli
