// Products of matrices of doubles, which oneDNN has not.
#pragma once

#include <cstdint>

namespace flow::cpu {

/// Element (i, j) is data[i * row + j * column].
struct DoubleMatrix {
  const double* data;
  int64_t row, column;
};

/// Doubles that multiply_doubles needs beside its operands, for any sizes.
extern const int64_t kDoubleProductScratch;

/// out [m, n], its rows `stride` apart, becomes a [m, k] b [k, n]; `accumulate`: that is added to
/// it. On this thread alone. Bits depend on the sizes and the instruction set. REQUIRES: k > 0.
void multiply_doubles(int64_t m, int64_t n, int64_t k, const DoubleMatrix& a, const DoubleMatrix& b,
                      double* out, int64_t stride, bool accumulate, double* scratch);

}  // namespace flow::cpu
