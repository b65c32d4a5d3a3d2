// Rows of pixels of a patch lie together, so that a patch is a few copies.
#include "runtime/cpu/loops/im2col.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpu/loops/features.h"

namespace flow::cpu {
namespace {

/// Copies n elements, and up to 31 more: without a tail to handle.
[[gnu::always_inline]] inline void copy_run(const uint16_t* from, uint16_t* to, int64_t n) {
  constexpr int64_t kStep = PatchCutter::kSlack;
  for (int64_t i = 0; i < n; i += kStep) std::memcpy(to + i, from + i, kStep * sizeof(uint16_t));
}

/// The patches of a padded image.
FLOW_VECTORISED void cut_padded(const PatchGeometry& g, int64_t padded_row, const uint16_t* padded,
                                uint16_t* to) {
  // The pixels of a row of the kernel lie together where it has no gaps.
  const int64_t runs = g.dilation[1] == 1 ? 1 : g.kernel[1];
  const int64_t run = g.kernel[1] / runs * g.channels;
  for (int64_t i = 0; i < g.rows; ++i) {
    const uint16_t* row = padded + i * g.strides[0] * padded_row;
    for (int64_t j = 0; j < g.columns; ++j, row += g.strides[1] * g.channels)
      for (int64_t k = 0; k < g.kernel[0]; ++k)
        for (int64_t l = 0; l < runs; ++l, to += run)
          copy_run(row + k * g.dilation[0] * padded_row + l * g.dilation[1] * g.channels, to, run);
  }
}

}  // namespace

PatchCutter::PatchCutter(const PatchGeometry& geometry)
    : geometry_(geometry),
      padded_rows_(std::max(geometry.before[0] + geometry.height,
                            (geometry.rows - 1) * geometry.strides[0] +
                                (geometry.kernel[0] - 1) * geometry.dilation[0] + 1)),
      padded_columns_(std::max(geometry.before[1] + geometry.width,
                               (geometry.columns - 1) * geometry.strides[1] +
                                   (geometry.kernel[1] - 1) * geometry.dilation[1] + 1)) {}

void PatchCutter::pad(const uint16_t* image, uint16_t* padded) const {
  const int64_t row = geometry_.width * geometry_.channels;
  const int64_t padded_row = padded_columns_ * geometry_.channels;
  std::fill_n(padded, scratch(), uint16_t{0});
  uint16_t* to =
      padded + geometry_.before[0] * padded_row + geometry_.before[1] * geometry_.channels;
  for (int64_t i = 0; i < geometry_.height; ++i)
    std::copy_n(image + i * row, row, to + i * padded_row);
}

void PatchCutter::cut(const uint16_t* image, uint16_t* scratch, uint16_t* to) const {
  pad(image, scratch);
  cut_padded(geometry_, padded_columns_ * geometry_.channels, scratch, to);
}

}  // namespace flow::cpu
