// Brings images of any size to the size of a dataset's rows.
#pragma once

#include <cstdint>

#include "runtime/data/image/image.h"
#include "runtime/data/image/resize.h"

namespace flow::data {

enum class FitMode : uint8_t {
  kShort,    // the shorter side gets the length Fit::size.height; the other keeps the proportions
  kCrop,     // covers the size, of which the center is kept
  kStretch,  // changes the proportions
  kPad,      // fits into the size and is centered on a constant
};

struct Fit {
  FitMode mode = FitMode::kCrop;
  ImageSize size;  // REQUIRES: both sides are positive; kShort ignores the width
  Filter filter = Filter::kBilinear;
  uint16_t fill = 0;                 // the sample around a padded image
  int64_t max_pixels = 100'000'000;  // of resized images and between the two passes
};

/// Returns the size of a fitted image. Throws RunError if an image with these proportions has more
/// than fit.max_pixels while it is resized. REQUIRES: both sides of the source are positive.
ImageSize fitted_size(ImageSize source, const Fit& fit);

/// Fits an image. Throws RunError as fitted_size does. REQUIRES: `image` has pixels, and `out` is
/// another object, whose memory is reused.
void fit_image(const Image& image, const Fit& fit, Image& out);

}  // namespace flow::data
