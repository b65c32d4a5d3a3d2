// What losses that are made of other ops ask of their operands.
#pragma once

#include "ops/core/call.h"

namespace flow::ops {

/// Operands 0 and 1 have one shape, or one of them is a number. Reports others.
bool equal_or_numbers(Call& call);

/// Operands from `first` on have one shape, with vectors along the last axis. Reports others.
bool are_vectors(Call& call, size_t first);

}  // namespace flow::ops
