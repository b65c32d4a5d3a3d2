// Applies augmentation ops to the image of a row. All functions are pure: the result depends on the
// ops, the image and the draws only, so that an image and its mask in one dataset get the same
// crops and flips.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/image/image.h"
#include "runtime/data/order/draws.h"
#include "runtime/plan/model/augment.h"

namespace flow::data {

/// Selects the draws of one use of a row.
struct AugmentDraws {
  EpochDraws epoch;      // seed, name of the dataset or part, and epoch
  int64_t row = 0;       // row in the dataset or part, before shuffling
  uint32_t attempt = 0;  // number of earlier uses of the row in this epoch
  bool training = true;  // predict jobs skip random ops and use the centers of crops
};

/// Applies the ops that act before normalization, in their order. `scratch` is working memory that
/// is reused. Throws RunError if the image has no pixels, if a crop does not fit, or if a
/// photometric op is applied to an image that is not of 8 bits and 1 or 3 channels (saturation: 3).
void apply_augment(const std::vector<plan::Augment>& ops, const AugmentDraws& draws, Image& image,
                   Image& scratch);

/// Applies erase and cutout to the normalized values of an image, (channels, height, width).
/// Predict jobs skip them. REQUIRES: `planes` has channels * size elements.
void apply_erasures(const std::vector<plan::Augment>& ops, const AugmentDraws& draws,
                    ImageSize size, std::span<double> planes);

}  // namespace flow::data
