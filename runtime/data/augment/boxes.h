// The random boxes of augmentation ops.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/philox.h"
#include "runtime/data/image/image.h"
#include "runtime/data/image/resize.h"
#include "runtime/plan/model/augment.h"

namespace flow::data {

/// The words of one op for one use of a row: word k is element words * row + k of the op's draw.
class OpDraw {
 public:
  /// REQUIRES: `words`, the number of words of the op for a row, is a multiple of 4.
  OpDraw(PhiloxKey key, uint32_t epoch, uint32_t attempt, int64_t row, int64_t words)
      : key_(key),
        epoch_(epoch),
        attempt_(attempt),
        first_(static_cast<uint64_t>(row) * static_cast<uint64_t>(words / 4)) {}

  /// Returns words 4 i ... 4 i + 3.
  PhiloxBlock block(uint64_t i) const { return philox_block(key_, epoch_, first_ + i, attempt_); }

 private:
  PhiloxKey key_;
  uint32_t epoch_, attempt_;
  uint64_t first_;
};

/// Returns a box of `size` at a random place in an image that has `pad` pixels on each side, which
/// may therefore begin at a negative index. REQUIRES: it fits.
Box random_box(const OpDraw& draw, ImageSize image, int64_t pad, ImageSize size);

/// Returns the box of random_resized_crop: one of ten random boxes that fits, else the largest box
/// at the center whose aspect ratio is within the bounds. The method is that of torchvision's
/// RandomResizedCrop.
Box random_resized_box(const OpDraw& draw, ImageSize image, const plan::augments::Interval& area,
                       const plan::augments::Interval& aspect);

/// Returns the box of erase, or nothing if the image keeps its values.
std::optional<Box> erased_box(const OpDraw& draw, ImageSize image,
                              const plan::augments::Erase& erase);

/// Returns the square of cutout, clipped to the image (DeVries and Taylor, "Improved Regularization
/// of Convolutional Neural Networks with Cutout", 2017).
Box cutout_box(const OpDraw& draw, ImageSize image, int64_t side);

/// Returns the center of an image. REQUIRES: `size` fits.
Box center_box(ImageSize image, ImageSize size);

}  // namespace flow::data
