// Encodes images as PNG.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/data/image/image.h"

namespace flow::data {

/// Returns a PNG file of the image. REQUIRES: it has 1 (gray), 3 (RGB) or 4 (RGBA) channels, and
/// both sides are from 1 to 1000000.
std::vector<std::byte> encode_png(const Image& image);

}  // namespace flow::data
