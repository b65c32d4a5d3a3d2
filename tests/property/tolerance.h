// How far a kernel's results may be from the reference's.
#pragma once

#include "tests/property/random_cases.h"

namespace flow::test {

/// The distance from 1 to the next number: twice the rounding error.
double epsilon_of(DType dtype);

/// How far a result of `dtype` may be from the reference's, which is rounded once. Elementwise ops
/// round a few times: 4 units. Sums of n numbers of at most 1 are off by n/2 units of 1 at the very
/// worst; kernels sum in blocks and on many lanes, where errors grow with the root of n.
class Tolerance {
 public:
  Tolerance(const KernelCase& one, DType dtype);
  bool admits(double got, double expected) const;

 private:
  void add_chain(const KernelCase& one, double n, double epsilon);

  double relative_, absolute_;
};

/// Of each element. Fails once for a case: the others are judged too.
void require_near(const KernelCase& one, const Array& got, const Array& expected);
/// Likewise, of results in float64.
void require_near_rounded(const KernelCase& one, const Array& got, const Array& exact);

bool same_bits(const Array& a, const Array& b);
bool same_bits(const KernelRun& a, const KernelRun& b);
/// Bits, but for those of NaNs: which NaN an operation makes is the processor's matter.
bool same_numbers(const Array& a, const Array& b);
bool same_numbers(const KernelRun& a, const KernelRun& b);

}  // namespace flow::test
