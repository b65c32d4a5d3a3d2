// Kernels that work on rows along one axis, wherever it lies.
#pragma once

#include <cstdint>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// out = f(a, b) of rows of n floats; where there is one operand, b is null.
using RowFunction = void (*)(const float* a, const float* b, float* out, int64_t n);

/// A Kernel of one or two operands of one shape that calls `run` on each row along `axis`. Rows
/// that do not lie in one piece are brought together first, some at a time.
Kernel rows_kernel(const Request& request, int axis, RowFunction run);

}  // namespace flow::cpu
