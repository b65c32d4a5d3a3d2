// The plan of a run directory, and what each array of the run is in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/plan/model/plan.h"

namespace flow::compare {

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

}  // namespace flow::compare
