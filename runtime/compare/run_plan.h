// The plan of a run directory. It tells what each array of the run is in the plan, and which of the
// arrays that differ was computed first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/compare/compare.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/plan.h"

namespace flow::compare {

/// The facts about a run in run.json. A value that is missing or has another type is empty.
struct RunFacts {
  struct DataFile {
    std::optional<int64_t> rows = {};
    std::string digest = {};
  };
  std::string job, source, plan_hash, device, instruction_set, version, host, started, stop_reason,
      error;
  std::vector<std::string> overrides;  // "--set vars.lr=0.1", "--input x=@x.npy"
  std::vector<std::string> load;       // each --load
  std::map<std::string, std::string> libraries;
  std::map<std::string, DataFile> data;  // "train.x"
  std::optional<int64_t> seed, threads, ranks, first_step, last_step, epochs, exit_status;
  std::optional<int64_t> fingerprint_every, arena_bytes, peak_memory_bytes;
  std::optional<double> seconds;
};
RunFacts facts_of(const Json& json);

struct RunPlan {
  plan::Plan plan;
  size_t job = 0;  // the job that ran, as an index into the plan
  std::vector<exec::Delivery> deliveries;

  const plan::Job& ran() const { return plan.jobs[job]; }
};

/// Returns nothing if `run` has no readable plan, or if it is unknown which job of the plan ran.
std::optional<RunPlan> read_run_plan(const fs::path& run);

/// The meaning of a file below the folder of a delivery: "value", "diff", or the number of a step,
/// "000020".
struct ArrayPart {
  bool stacked = false;
  std::optional<int64_t> step;
};
/// Returns nothing if the array belongs to another delivery.
std::optional<ArrayPart> part_of(const exec::Delivery& delivery, std::string_view name);

/// Describes in one line how the requests of two runs differ: "plans differ:
/// optimizer.learning_rate 0.1 -> 0.2". Returns an empty text if they do not differ.
std::string plan_changes(const RunPlan& golden, const RunPlan& out);

/// Describes how the data files of two runs differ, one line for each: "data differ:
/// train.survived, rows 160, digest 3f0c... and a41b...". For a run without run.json, the digests
/// come from its newest checkpoint.
std::vector<std::string> data_changes(const fs::path& golden, const fs::path& out);

struct FirstDifference {
  std::string array;            // its name in the comparison: "watch/lenet/conv1/value"
  std::optional<int64_t> step;  // only if the files contain the step
  /// The tensors from which it was computed, divided into those whose arrays pass and those without
  /// an array.
  std::vector<std::string> passing_inputs, unwatched_inputs;
};

/// Considers the arrays of a run's hooks and return whose values differ, and returns the one of the
/// earliest step. Within this step it is the first in computation order: values, then gradients,
/// each in the order in which they are computed. Returns nothing if no values differ. `golden` is
/// the plan of a run in the directory `run`.
std::optional<FirstDifference> first_difference(const RunPlan& golden, const fs::path& run,
                                                const Comparison& comparison);

/// Writes the difference as text: "first difference in computation order: watch/lenet/conv1/value,
/// at step 20; inputs pass: x"
std::string text_of(const FirstDifference& first);

/// Sorts the arrays by the time at which they are computed: values, gradients and returned arrays,
/// each together with its steps; then the variables of the checkpoint in the order of the plan;
/// then all other arrays.
void order_by_plan(const RunPlan& golden, Comparison& comparison);

}  // namespace flow::compare
