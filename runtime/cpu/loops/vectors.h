// Loops over adjacent floats that several kernels have, compiled for what the CPU has.
#pragma once

#include <cstdint>

namespace flow::cpu {

/// sum += x
void add_to(const float* x, float* sum, int64_t n);
void add_to(const double* x, double* sum, int64_t n);
/// y = factor x; y may be x.
void scale_to(const float* x, float factor, float* y, int64_t n);
/// y = a x + b z; y may be x.
void weighted_sum(const float* x, float a, const float* z, float b, float* y, int64_t n);
/// The largest, passing over NaNs; -inf of nothing else.
float largest_of(const float* x, int64_t n);

}  // namespace flow::cpu
