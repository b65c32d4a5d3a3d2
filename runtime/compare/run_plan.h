// The plan of a run directory: what each array of the run is in it, and which of those that differ
// was computed first.
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

/// What run.json says of a run. What is missing, or of another type, is empty.
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
  size_t job = 0;  // that ran: its index in the plan
  std::vector<exec::Delivery> deliveries;

  const plan::Job& ran() const { return plan.jobs[job]; }
};

/// Nothing where `run` has no plan that can be read, or none says which of its jobs ran.
std::optional<RunPlan> read_run_plan(const fs::path& run);

/// What a file below a delivery's folder is: "value", "diff", or one of a step, "000020".
struct ArrayPart {
  bool stacked = false;
  std::optional<int64_t> step;
};
/// Nothing where the array is of another delivery.
std::optional<ArrayPart> part_of(const exec::Delivery& delivery, std::string_view name);

/// How two runs were asked for different things, in a line: "plans differ:
/// optimizer.learning_rate 0.1 -> 0.2". Empty where they were not.
std::string plan_changes(const RunPlan& golden, const RunPlan& out);

/// How the data files of two runs differ, a line each: "data differ: train.survived, rows 160,
/// digest 3f0c... and a41b...". A run without run.json has digests in its newest checkpoint.
std::vector<std::string> data_changes(const fs::path& golden, const fs::path& out);

struct FirstDifference {
  std::string array;            // its name in the comparison: "watch/lenet/conv1/value"
  std::optional<int64_t> step;  // where the files tell
  /// Tensors from which it was computed: those whose arrays pass, and those without an array.
  std::vector<std::string> passing_inputs, unwatched_inputs;
};

/// Of the arrays of a run's hooks and return whose values differ, the one of the earliest step, and
/// of that step the first by order_of: values, then gradients, each in the order of computing.
/// Nothing where none of them differs. `golden`: the plan of a run in the directory `run`.
std::optional<FirstDifference> first_difference(const RunPlan& golden, const fs::path& run,
                                                const Comparison& comparison);

/// "first difference in computation order: watch/lenet/conv1/value, at step 20; inputs pass: x"
std::string text_of(const FirstDifference& first);

/// Sorts arrays by when they are computed: values, gradients, what is returned, each with its
/// steps; then variables of the checkpoint in the order of the plan, then others.
void order_by_plan(const RunPlan& golden, Comparison& comparison);

}  // namespace flow::compare
