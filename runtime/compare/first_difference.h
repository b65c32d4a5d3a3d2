// Runs compared in the order of computing: what differs first, and whether its inputs do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/compare.h"
#include "runtime/compare/run_plan.h"

namespace flow::compare {

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
