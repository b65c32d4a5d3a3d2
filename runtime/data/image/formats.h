// The decoders of the two formats, which decode.h selects from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/data/image/image.h"

namespace flow::data {

/// The header of an image as it is stored.
struct StoredHeader {
  ImageSize size;
  int channels = 0;     // color and alpha channels: 1 to 4
  int orientation = 1;  // EXIF orientation: 1 to 8
};

/// Throws RunError if the image has more than `most` pixels.
void check_pixels(ImageSize size, int64_t most);

/// Decodes a JPEG image to gray or RGB with 8 bits. Returns its header. Throws RunError as
/// decode_image does.
StoredHeader decode_jpeg(std::span<const std::byte> bytes, int64_t max_pixels, Image& out);
StoredHeader read_jpeg_header(std::span<const std::byte> bytes);

/// Decodes a PNG image to gray, gray and alpha, RGB or RGBA. Samples have 16 bits if `bits` is 16
/// and those of the file have 16, otherwise 8. Returns its header. Throws RunError as decode_image
/// does.
StoredHeader decode_png(std::span<const std::byte> bytes, int bits, int64_t max_pixels, Image& out);
StoredHeader read_png_header(std::span<const std::byte> bytes);

}  // namespace flow::data
