// Decodes PNG and JPEG images to exact samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/data/image/image.h"

namespace flow::data {

/// The channels of decoded images; the value is their number.
enum class Channels : uint8_t { kGray = 1, kRgb = 3, kRgba = 4 };

struct DecodeOptions {
  Channels channels = Channels::kRgb;
  int bits = 8;                   // bits of a decoded sample: 8 or 16
  bool apply_orientation = true;  // turn the image as its EXIF data says
  /// The RGB color behind transparent pixels. Without it, the colors of such pixels are kept.
  std::optional<std::array<uint8_t, 3>> background = std::nullopt;
  int64_t max_pixels = 100'000'000;  // of the image in the file
};

/// What the header of an image says.
struct ImageHeader {
  ImageSize size;    // after the orientation is applied, if the options say so
  int channels = 0;  // color and alpha channels in the file: 1 to 4
};

/// Decodes a PNG or JPEG image, which its first bytes identify. 16-bit samples of a PNG are scaled
/// to 8 bits unless options.bits is 16; 8-bit samples are multiplied by 257 if it is. Reuses the
/// memory of `out`. Throws RunError with a message that does not name the file if the format is
/// unknown or unsupported, the image is damaged or truncated, or it has more than
/// options.max_pixels; `out` is then unspecified.
void decode_image(std::span<const std::byte> bytes, const DecodeOptions& options, Image& out);

/// Reads only the header. Throws RunError as decode_image does for errors in the header.
ImageHeader read_image_header(std::span<const std::byte> bytes, const DecodeOptions& options);

}  // namespace flow::data
