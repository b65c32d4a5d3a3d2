// Where two runs part: of what differs, what was computed first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/file.h"
#include "runtime/io/compare.h"

namespace flow::exec {

struct FirstDifference {
  std::string array;            // its name in the comparison: "watch/lenet/conv1/value"
  std::optional<int64_t> step;  // where the files tell
};

/// Of the arrays of a run's hooks and return whose values differ, the one of the earliest step, and
/// of that step the first by order_of: values, then gradients, each in the order of computing.
/// Nothing where none of them differs, or where `golden`, a run directory, has no plan that can be
/// read.
std::optional<FirstDifference> first_difference(const fs::path& golden,
                                                const io::Comparison& comparison);

}  // namespace flow::exec
