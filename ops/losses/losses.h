// Checks of the operands of losses.
#pragma once

#include "ops/core/call.h"

namespace flow::ops {

/// Returns true if operands 0 and 1 have equal shapes or one of them is a scalar. Reports other
/// shapes.
bool equal_or_numbers(Call& call);

/// Returns true if the operands starting with `first` have equal shapes, with vectors along the
/// last axis. Reports other shapes.
bool are_vectors(Call& call, size_t first);

}  // namespace flow::ops
