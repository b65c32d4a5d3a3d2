// The orientation of an image in EXIF data (CIPA DC-008, tag 0x0112).
#pragma once

#include <cstddef>
#include <span>

#include "runtime/data/image/image.h"

namespace flow::data {

/// Returns the orientation, 1 to 8, in EXIF data that begins with a TIFF header. Damaged data and
/// data without the tag count as 1.
int exif_orientation(std::span<const std::byte> exif);

/// Returns true if this orientation exchanges height and width.
constexpr bool swaps_sides(int orientation) { return orientation >= 5; }

/// Turns and mirrors an image so that it can be displayed upright. REQUIRES: `orientation` is from
/// 1 to 8, and `out` is another object.
void orient(const Image& image, int orientation, Image& out);

}  // namespace flow::data
