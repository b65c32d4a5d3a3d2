// Kernels that work on rows along one axis, wherever it lies.
#pragma once

#include <cstdint>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// out = f(a, b) of rows of n floats; where there is one operand, b is null.
using RowFunction = void (*)(const float* a, const float* b, float* out, int64_t n);

/// `count` rows of n floats beside each other: element k of row i is at k * apart + i.
struct RowsBeside {
  int64_t n, apart, count;
};
inline constexpr int64_t kMostBeside = 64;  // rows

/// The same of each of those rows.
using RowsFunction = void (*)(const float* a, const float* b, float* out, const RowsBeside& rows);

/// A Kernel of one or two operands of one shape that calls `run` on each row along `axis`. Of rows
/// that do not lie in one piece it calls `run_beside` on many at a time; a few are brought together
/// first.
Kernel rows_kernel(const Request& request, int axis, RowFunction run, RowsFunction run_beside);

}  // namespace flow::cpu
