// Loops over adjacent floats.
#include "runtime/cpu/loops/vectors.h"

#include <limits>

#include "runtime/base/vectorised.h"

namespace flow::cpu {

FLOW_VECTORISED void add_to(const float* x, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

FLOW_VECTORISED void add_to(const double* x, double* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

FLOW_VECTORISED void scale_to(const float* x, float factor, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

FLOW_VECTORISED void weighted_sum(const float* x, float a, const float* z, float b, float* y,
                                  int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a * x[i] + b * z[i];
}

FLOW_VECTORISED float largest_of(const float* x, int64_t n) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

}  // namespace flow::cpu
