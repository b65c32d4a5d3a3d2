// Float32 sums over any axes, the same bits on any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cpu/kernel.h"

namespace flow::cpu {

/// What is summed is cut into chunks that depend on the shape alone; each is summed by one thread,
/// in blocks of few elements, and the chunks' sums are added in order, in float64.
class Reduction {
 public:
  /// Sums over the axes that are set in `reduced`. The result has the others, in the order in which
  /// they lie in memory.
  Reduction(const TensorDesc& desc, const std::vector<bool>& reduced);

  size_t workspace() const;  // bytes
  /// out = factor * the sums of x. REQUIRES: x and out do not overlap.
  void sum(int threads, const float* x, double factor, float* out, std::byte* workspace) const;

  /// How many elements go into one sum.
  int64_t reduced_elements() const { return run_ * runs_; }

 private:
  struct Loop {
    int64_t extent, stride;
  };
  int64_t offset_of(const std::vector<Loop>& loops, int64_t index) const;
  void sum_rows(const float* x, int64_t first, int64_t end, float* sums) const;
  double sum_runs(const float* x, int64_t first, int64_t end) const;

  std::vector<Loop> kept_;     // outside the innermost axis, outermost first
  std::vector<Loop> reduced_;  // likewise
  int64_t outer_ = 1;          // product of kept_
  int64_t runs_ = 1;           // product of reduced_
  int64_t columns_ = 1;        // innermost axis where it is kept, else 1
  int64_t run_ = 1;            // innermost axis where it is reduced, else 1
  int64_t chunk_ = 1;          // of one sum: rows where columns_ are kept, else elements
  int64_t chunks_ = 1;
};

}  // namespace flow::cpu
