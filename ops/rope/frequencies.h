// By how much a rotary position embedding turns pairs of features.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/attributes.h"

namespace flow::ops {

/// Radians per position of each pair, of a call of `rope` with normalized attributes.
std::vector<double> rope_frequencies(const Attributes& attributes);

/// Does pair i have features i and i + pairs? Else it has 2 i and 2 i + 1.
bool rope_splits_halves(const Attributes& attributes);

}  // namespace flow::ops
