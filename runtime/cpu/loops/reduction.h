// Float32 sums over any axes, the same bits on any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/reduced_axes.h"

namespace flow::cpu {

/// Chunks are summed in blocks of few elements, and the chunks' sums are added in order, in
/// float64.
class Reduction {
 public:
  explicit Reduction(ReducedAxes axes) : axes_(std::move(axes)) {}

  size_t workspace() const;  // bytes
  /// out = factor * the sums of x, of floats, or of bfloat16 as its bits. REQUIRES: x and out do
  /// not overlap.
  template <typename T>
  void sum(int threads, const T* x, double factor, float* out, std::byte* workspace) const;

  /// How many elements go into one sum.
  int64_t reduced_elements() const { return axes_.reduced_elements(); }

 private:
  template <typename T>
  void sum_rows(const T* x, int64_t first, int64_t end, float* sums) const;
  template <typename T>
  double sum_runs(const T* x, int64_t first, int64_t end) const;

  ReducedAxes axes_;
};

}  // namespace flow::cpu
