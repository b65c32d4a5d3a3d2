// Compares one batch with several shards, and one process with several ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/io/process.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/serialize.h"
#include "runtime/verify/bench.h"
#include "runtime/verify/verify.h"

namespace flow::verify {
namespace {

/// Shards sum in another order than one batch. These tolerances cover the effect of that after 5
/// steps in float64.
constexpr double kRelative = 1e-9, kAbsolute = 1e-11;
constexpr int64_t kSteps = 5;
constexpr int kRanks = 2;

std::string shards_set(const Bench& bench, int64_t shards) {
  return fmt::format("jobs.{}.shards={}", bench.request().trials.job, shards);
}

/// Throws if the job takes statistics of a batch, because the statistics of a shard are different.
void require_rows_apart(const plan::Job& job) {
  for (const plan::Step& step : job.steps)
    if (job.train && step.op->moves_statistics())
      throw NotApplicable(
          fmt::format("{}: `{}` takes statistics of each shard", step.where, step.name));
}

/// Runs the job in float64 with one batch, and with each of these numbers of shards that divides
/// the batch.
void compare_shards(Bench& bench, const std::vector<int64_t>& numbers, Result& result) {
  const plan::Plan whole = bench.compile_exact({.sets = {shards_set(bench, 1)}});
  const int64_t steps = std::min(bench.steps(), kSteps);
  const TrialEnd one =
      bench.run_whole({.folder = bench.folder_for("shards"), .plan = whole, .steps = steps});
  const RunRules rules{.tolerance = compare::ToleranceRules{kRelative, kAbsolute, {}}};
  std::string refused;
  for (const int64_t number : numbers) try {
      const plan::Plan cut = bench.compile_exact({.sets = {shards_set(bench, number)}});
      const TrialEnd several =
          bench.run_whole({.folder = bench.folder_for("shards"), .plan = cut, .steps = steps});
      const std::string what = fmt::format("1 batch and {} shards, float64", number);
      if (!compare_directory(one.directory, several.directory, what, result, rules)) return;
    } catch (const NotApplicable& reason) {
      if (refused.empty()) refused = reason.what();
    }
  if (result.detail.empty()) throw NotApplicable(refused);
}

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::error_code unknown;
  return std::ranges::any_of(split(path ? path : "", ':'), [&](const std::string& folder) {
    return !folder.empty() && fs::is_regular_file(fs::path(folder) / program, unknown);
  });
}

/// Returns the command line `mpirun -np 2 flowrun JOB PLAN ...`, which writes its output to a file.
std::vector<std::string> words_for_ranks(const Bench& bench, const fs::path& plan,
                                         const fs::path& out, const fs::path& log) {
  const Request& request = bench.request();
  const TrialOptions& options = request.trials;
  std::vector<std::string> words = {"/bin/sh",
                                    "-c",
                                    "exec \"$@\" >\"$0\" 2>&1",
                                    log.string(),
                                    "mpirun",
                                    "-np",
                                    std::to_string(kRanks),
                                    request.flowrun,
                                    options.job,
                                    plan.string(),
                                    "-o",
                                    out.string(),
                                    "--distributed",
                                    "--quiet",
                                    "--no-commands",
                                    "--save",
                                    "none",
                                    "--steps",
                                    std::to_string(request.steps),
                                    "--root",
                                    options.root.empty() ? "." : options.root.string()};
  for (const auto& [name, spec] : options.inputs)
    words.insert(words.end(), {"--input", fmt::format("{}={}", name, spec)});
  for (const std::string& load : options.load) words.insert(words.end(), {"--load", load});
  for (const std::string& glob : options.load_partial)
    words.insert(words.end(), {"--load-partial", glob});
  return words;
}

/// Runs the ranks in a child process, so that killing the child also ends all ranks. Open MPI
/// requires these variables for the user root, and for more ranks than cores; MPICH ignores them.
void run_ranks(const Bench& bench, const std::vector<std::string>& words, const fs::path& log) {
  const auto work = [&] {
    const io::Watchdog watchdog;
    io::ProcessOptions options{.words = words,
                               .environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                               {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                               {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                               {"OMPI_MCA_hwloc_base_binding_policy", "none"}},
                               .directory = fs::current_path()};
    options.watchdog = &watchdog;
    io::Process process(options);
    process.close_input();
    const auto status = process.wait({});
    if (status && status->code == kRequestWrong)  // too few GPUs, or no module for this MPI
      throw RequestError(shortened(trimmed(read_text(log))));
    if (!status || !status->good())
      throw RunError(fmt::format("mpirun {}: {}", status ? status->str() : "ended",
                                 shortened(trimmed(read_text(log)))));
    return std::string();
  };
  const ChildEnd end = run_in_child(work, bench.request().trials.stopping);
  if (end.status == kRequestWrong) throw NotApplicable(end.error);
  if (end.status != kDone) throw RunError(end.error, end.hint, end.status);
}

/// Checks that the ranks give results that are bit-identical to those of one process with the same
/// shards.
void compare_ranks(Bench& bench, Result& result) {
  const int64_t own = plan::shards_of(bench.job());
  const bool divides = own % kRanks == 0;
  if (exec::built_mpi().empty() || !is_in_path("mpirun")) {
    result.notes.emplace_back(exec::built_mpi().empty() ? "ranks: flow was built without MPI"
                                                        : "ranks: no mpirun in PATH");
    return;
  }
  plan::Plan plan;
  try {
    plan = divides ? bench.plan() : bench.compile({.sets = {shards_set(bench, kRanks)}});
  } catch (const NotApplicable& reason) {
    result.notes.push_back(fmt::format("ranks: {}", reason.what()));
    return;
  }
  const TrialEnd one = bench.run_whole(
      {.folder = bench.folder_for("process"), .plan = plan, .steps = bench.request().steps});
  const fs::path folder = bench.request().trials.directory;
  const fs::path file = folder / "ranks.plan", out = folder / "ranks", log = folder / "ranks.log";
  write_text_atomically(file, plan::to_json(plan));
  try {
    run_ranks(bench, words_for_ranks(bench, file, out, log), log);
  } catch (const NotApplicable& reason) {
    result.notes.push_back(fmt::format("ranks: {}", reason.what()));
    return;
  }
  compare_directory(one.directory, out, fmt::format("1 process and {} ranks", kRanks), result);
}

}  // namespace

Result check_shards(Bench& bench) {
  if (!bench.request().compile)
    throw NotApplicable(fmt::format("{} is a plan", bench.request().file));
  Result result;
  std::string skipped;
  const int64_t own = plan::shards_of(bench.job());
  try {
    require_rows_apart(bench.job());
    compare_shards(bench, own > 1 ? std::vector{own} : std::vector<int64_t>{2, 4}, result);
  } catch (const NotApplicable& reason) {
    skipped = reason.what();
  }
  if (result.verdict == Verdict::kDiffers) return result;
  compare_ranks(bench, result);
  if (result.detail.empty()) throw NotApplicable(skipped);
  if (!skipped.empty()) result.notes.push_back("shards: " + skipped);
  return result;
}

}  // namespace flow::verify
