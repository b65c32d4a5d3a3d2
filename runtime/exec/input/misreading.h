// What a run reads otherwise than its plan says.
#pragma once

#include <cstdint>

namespace flow::exec {

/// Planted by `flowrun verify --prove`, which tries whether comparisons of runs notice it.
struct Misreading {
  uint64_t seed = 0;  // added to the seed of inputs that are drawn, and of shuffles
  int64_t steps = 0;  // added to the step whose batch is read
};

}  // namespace flow::exec
