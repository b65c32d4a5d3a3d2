// bfloat16 on the CPU, as its bits.
#pragma once

#include <cstdint>

#include "runtime/base/half.h"

namespace flow::cpu {

/// y = x rounded to bfloat16, ties to even; and the way back, exact.
void round_to_bfloat16(const float* x, uint16_t* y, int64_t n);
void widen_bfloat16(const uint16_t* x, float* y, int64_t n);

// For loops over elements that are floats or bfloat16.
inline float wide(float x) { return x; }
inline float wide(uint16_t bfloat16) { return bfloat16_to_float(bfloat16); }

}  // namespace flow::cpu
