// Flat indices of arrays in C order, worked out by division: the plain way to broadcast and reduce.
#pragma once

#include <cstdint>

#include "runtime/base/shape.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {

/// The element of an operand that broadcasting brings to element i of the result.
inline int64_t operand_index(const Shape& result, int64_t i, const Shape& operand) {
  int64_t index = 0, stride = 1;
  for (int axis = result.rank() - 1; axis >= 0; --axis) {
    const int own = axis - (result.rank() - operand.rank());
    if (own < 0) break;
    if (operand[own] != 1) index += i % result[axis] * stride;
    stride *= operand[own];
    i /= result[axis];
  }
  return index;
}

}  // namespace flow::cpu::reference
