// Resizes images with the exact integers of Pillow's filters.
#pragma once

#include <cstdint>

#include "runtime/data/image/image.h"

namespace flow::data {

enum class Filter : uint8_t { kBilinear, kBicubic, kNearest };

/// A rectangle of pixels in an image.
struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

/// Resizes first the width and then the height, with antialiasing except for kNearest. An axis of
/// equal length is left as it is. The result is equal to Pillow's `resize` of one axis after the
/// other. REQUIRES: `size` is positive, `image` has pixels, and `out` is another object.
void resize(const Image& image, ImageSize size, Filter filter, Image& out);

/// Resizes the pixels in `from` as an image of their own to `size` and keeps those of the result in
/// `part`. REQUIRES: as for resize(); both boxes have pixels and are inside their images.
void resize_part(const Image& image, const Box& from, ImageSize size, const Box& part,
                 Filter filter, Image& out);

/// Copies the pixels in `box`. REQUIRES: `box` is inside the image, and `out` is another object.
void crop(const Image& image, const Box& box, Image& out);

}  // namespace flow::data
