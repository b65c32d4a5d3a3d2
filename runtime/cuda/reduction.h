// Sums over any axes, the same bits in every run: fixed trees, in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/kernel.h"
#include "runtime/cuda/loops.h"

namespace flow::cuda {

/// A grid of sums: `outputs` of them, of `terms` elements each, in `chunks` parts.
struct Sums {
  Loops<1> kept, reduced;  // where an output's first element lies; its others, from there
  int64_t outputs = 1, terms = 1;
  int64_t chunk = 1, chunks = 1;  // terms of a part; parts of a sum
  double factor = 1;              // of the results
};

/// How sums are computed depends on shapes alone. Where there are few of them, each is cut into
/// chunks, whose sums a second kernel adds up.
class Reduction {
 public:
  /// Sums over the axes of `x` that are set in `reduced`. The result has the others, in order.
  Reduction(const TensorDesc& x, const std::vector<bool>& reduced);

  int64_t terms() const { return sums_.terms; }  // that go into one sum
  size_t workspace() const;                      // bytes
  /// out = factor * the sums of x. REQUIRES: x and out do not overlap.
  Launch sum(double factor) const;

 private:
  DType dtype_;
  Sums sums_;
  bool by_rows_ = false;  // a block sums adjacent terms; else its threads have adjacent outputs
  int threads_ = 0;       // of a block by rows
};

}  // namespace flow::cuda
