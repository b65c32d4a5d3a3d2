// Rows of adjacent features, and sums over rows.
#include "runtime/cpu/loops/feature_rows.h"

#include <algorithm>

#include "runtime/base/vectorised.h"

namespace flow::cpu {
namespace {

/// out[i] = the sum of parts[k * n + i] over the chunks, for `count` features.
FLOW_VECTORISED void add_columns(const float* parts, int64_t chunks, int64_t n, int64_t count,
                                 float* out) {
  constexpr int64_t kAtOnce = 64;
  for (int64_t first = 0; first < count; first += kAtOnce) {
    const int64_t block = std::min(kAtOnce, count - first);
    double sums[kAtOnce] = {};
    for (int64_t k = 0; k < chunks; ++k) {
#pragma omp simd
      for (int64_t i = 0; i < block; ++i) sums[i] += static_cast<double>(parts[k * n + first + i]);
    }
    for (int64_t i = 0; i < block; ++i) out[first + i] = static_cast<float>(sums[i]);
  }
}

}  // namespace

FeatureRows::FeatureRows(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int axis = axis_of(request);
  rows = x.elements(0, axis);
  features = x.elements(axis, x.rank());
  // Rows are read twice, so few at a time; the gradients' sums must be few beside them.
  chunk = std::clamp<int64_t>(kPiece / features, 16, 1024);
}

void FeatureRows::add_parts(int threads, const float* parts, float* out) const {
  constexpr int64_t kColumnsOfPiece = 256;
  for_pieces(threads, features, kColumnsOfPiece, [&](int64_t first, int64_t end) {
    add_columns(parts + first, chunks(), features, end - first, out + first);
  });
}

}  // namespace flow::cpu
