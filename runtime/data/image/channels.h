// Conversions between gray, RGB and RGBA, of both sample sizes.
#pragma once

#include "runtime/data/image/decode.h"
#include "runtime/data/image/image.h"

namespace flow::data {

/// Converts an image with 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGBA) channels to the
/// channels, bits and background of the options, in place. REQUIRES: image.bits <= options.bits.
void convert_channels(const DecodeOptions& options, Image& image);

}  // namespace flow::data
