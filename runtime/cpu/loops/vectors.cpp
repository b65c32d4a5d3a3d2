// Loops over adjacent floats, and conversions between floats and bfloat16.
#include "runtime/cpu/loops/vectors.h"

#include <limits>

#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/features.h"

namespace flow::cpu {

FLOW_VECTORIZED void add_to(const float* x, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

FLOW_VECTORIZED void add_to(const double* x, double* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

FLOW_VECTORIZED void scale_to(const float* x, float factor, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

FLOW_VECTORIZED void weighted_sum(const float* x, float a, const float* z, float b, float* y,
                                  int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a * x[i] + b * z[i];
}

FLOW_VECTORIZED float largest_of(const float* x, int64_t n) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

FLOW_VECTORIZED void round_to_bfloat16(const float* x, uint16_t* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = bits_as<uint32_t>(x[i]);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    y[i] = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40 : rounded);
  }
}

FLOW_VECTORIZED void widen_bfloat16(const uint16_t* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = bfloat16_to_float(x[i]);
}

}  // namespace flow::cpu
