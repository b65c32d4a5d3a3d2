// Loops over adjacent floats that several kernels use, compiled for the instruction sets of the
// CPU. bfloat16 is represented by its bits.
#pragma once

#include <cstdint>

#include "runtime/base/element_types.h"

namespace flow::cpu {

/// sum += x.
void add_to(const float* x, float* sum, int64_t n);
void add_to(const double* x, double* sum, int64_t n);
/// y = factor * x. y may be x.
void scale_to(const float* x, float factor, float* y, int64_t n);
/// y = a * x + b * z. y may be x.
void weighted_sum(const float* x, float a, const float* z, float b, float* y, int64_t n);
/// Returns the largest element, ignoring NaNs, or -inf if there is no other element.
float largest_of(const float* x, int64_t n);

/// y = x, rounded to bfloat16 with ties to even, or widened from bfloat16, which is exact.
void round_to_bfloat16(const float* x, uint16_t* y, int64_t n);
void widen_bfloat16(const uint16_t* x, float* y, int64_t n);

// These overloads widen an element, for loops whose elements are floats or bfloat16.
inline float wide(float x) { return x; }
inline float wide(uint16_t bfloat16) { return bfloat16_to_float(bfloat16); }

}  // namespace flow::cpu
