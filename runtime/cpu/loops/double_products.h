// Products of matrices of doubles, which oneDNN does not support.
#pragma once

#include <cstdint>

namespace flow::cpu {

/// A matrix whose element (i, j) is data[i * row + j * column].
struct DoubleMatrix {
  const double* data;
  int64_t row, column;
};

/// The number of doubles that multiply_doubles needs as scratch memory, for any sizes.
extern const int64_t kDoubleProductScratch;

/// Computes out = a [m, k] b [k, n], or adds the product to out if `accumulate` is set. out is [m,
/// n] with rows `stride` apart. Runs only on this thread. The exact results depend on the sizes and
/// the instruction set. REQUIRES: k > 0.
void multiply_doubles(int64_t m, int64_t n, int64_t k, const DoubleMatrix& a, const DoubleMatrix& b,
                      double* out, int64_t stride, bool accumulate, double* scratch);

}  // namespace flow::cpu
