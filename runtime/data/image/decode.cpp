// Selects the decoder of an image, then converts its channels and turns it.
#include "runtime/data/image/decode.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/image/channels.h"
#include "runtime/data/image/formats.h"
#include "runtime/data/image/orientation.h"

namespace flow::data {
namespace {

enum class Format : uint8_t { kPng, kJpeg };

Format format_of(std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\x89PNG\r\n\x1a\n"sv)) return Format::kPng;
  if (text.starts_with("\xff\xd8\xff"sv)) return Format::kJpeg;
  if (text.empty()) throw RunError("the image is empty");
  throw RunError("unknown image format; expected PNG or JPEG", "convert the image to PNG or JPEG");
}

}  // namespace

void check_pixels(ImageSize size, int64_t most) {
  if (size.height > most / size.width)
    throw RunError(
        fmt::format("the image has {} x {} pixels; the limit is {}", size.height, size.width, most),
        "set max_pixels to read larger images");
}

void decode_image(std::span<const std::byte> bytes, const DecodeOptions& options, Image& out) {
  const StoredHeader header = format_of(bytes) == Format::kPng
                                  ? decode_png(bytes, options.bits, options.max_pixels, out)
                                  : decode_jpeg(bytes, options.max_pixels, out);
  convert_channels(options, out);
  if (!options.apply_orientation || header.orientation == 1) return;
  Image turned;
  orient(out, header.orientation, turned);
  std::swap(turned, out);
}

ImageHeader read_image_header(std::span<const std::byte> bytes, const DecodeOptions& options) {
  const StoredHeader stored =
      format_of(bytes) == Format::kPng ? read_png_header(bytes) : read_jpeg_header(bytes);
  check_pixels(stored.size, options.max_pixels);
  ImageHeader header{stored.size, stored.channels};
  if (options.apply_orientation && swaps_sides(stored.orientation))
    std::swap(header.size.height, header.size.width);
  return header;
}

}  // namespace flow::data
