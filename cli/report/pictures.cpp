// Draws arrays as small pictures side by side, in PNG (www.w3.org/TR/png) with the compression and
// checksums of zlib.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/report/run_data.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/elements.h"

namespace flow::cli::report {
namespace {

void append_big_endian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

const Bytef* as_bytes(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

void append_chunk(std::string& png, std::string_view type, std::string_view data) {
  append_big_endian(png, static_cast<uint32_t>(data.size()));
  const std::string body = std::string(type) + std::string(data);
  png += body;
  append_big_endian(
      png, static_cast<uint32_t>(crc32(0, as_bytes(body), static_cast<uInt>(body.size()))));
}

std::string compressed(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string out(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(out.data()), &size, as_bytes(text),
                               text.size(), Z_BEST_COMPRESSION);
  FLOW_CHECK(status == Z_OK, "zlib: {}", status);
  out.resize(size);
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t here = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j)
      word = word << 8 | (j < here ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += j <= here ? kDigits[word >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

constexpr int64_t kMostPictures = 16, kPicturesInRow = 8, kMostPixels = 128, kGap = 2;

/// The layout of the pictures in an array, with strides in elements.
struct Layout {
  int64_t count = 1, channels = 1, height = 0, width = 0;
  int64_t of_picture = 0, of_channel = 0, of_row = 0, of_pixel = 1;
};

bool is_side(int64_t extent, int64_t least) { return extent >= least && extent <= 4096; }

std::optional<Layout> layout_of(const Shape& shape) {
  constexpr int64_t kLeast = 4, kLeastPlain = 16;
  const int rank = shape.rank();
  const auto at = [&](int from_end) { return shape[rank - from_end]; };
  Layout layout;
  if (rank >= 3 && (at(3) == 1 || at(3) == 3) && is_side(at(2), kLeast) && is_side(at(1), kLeast)) {
    layout = {.channels = at(3), .height = at(2), .width = at(1)};
    layout.of_row = layout.width;
    layout.of_channel = layout.height * layout.width;
  } else if (rank >= 3 && (at(1) == 1 || at(1) == 3) && is_side(at(3), kLeast) &&
             is_side(at(2), kLeast)) {
    layout = {.channels = at(1), .height = at(3), .width = at(2)};
    layout.of_channel = 1;
    layout.of_pixel = layout.channels;
    layout.of_row = layout.width * layout.channels;
  } else if (rank >= 2 && is_side(at(2), kLeastPlain) && is_side(at(1), kLeastPlain) &&
             std::max(at(1), at(2)) <= 4 * std::min(at(1), at(2))) {
    layout = {.height = at(2), .width = at(1)};
    layout.of_row = layout.width;
  } else {
    return {};
  }
  layout.of_picture = layout.channels * layout.height * layout.width;
  layout.count = shape.elements() / layout.of_picture;
  return layout;
}

/// The pixels of a sheet of pictures. The least value is black, and the greatest is white.
class Sheet {
 public:
  Sheet(const Layout& layout, int64_t shown)
      : layout_(layout),
        stride_(std::max(layout.height, layout.width) / (kMostPixels + 1) + 1),
        height_((layout.height - 1) / stride_ + 1),
        width_((layout.width - 1) / stride_ + 1),
        columns_(std::min(shown, kPicturesInRow)),
        rows_((shown - 1) / kPicturesInRow + 1),
        shown_(shown) {}

  template <typename Elements>
  void draw(const Elements& elements) {
    visit(elements, [&](double value, size_t) {
      if (!std::isfinite(value)) return;
      least_ = std::min(least_, value);
      greatest_ = std::max(greatest_, value);
    });
    pixels_.assign(sheet_width() * sheet_height() * static_cast<size_t>(layout_.channels), 128);
    const double half = greatest_ / 2 - least_ / 2;
    visit(elements, [&](double value, size_t at) {
      const double share = half > 0 ? (value / 2 - least_ / 2) / half : 0.5;
      pixels_[at] = std::isfinite(value)
                        ? static_cast<uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * 255))
                        : 0;
    });
  }

  size_t sheet_width() const { return static_cast<size_t>(columns_ * (width_ + kGap) - kGap); }
  size_t sheet_height() const { return static_cast<size_t>(rows_ * (height_ + kGap) - kGap); }
  std::string uri() const {
    return png_uri(pixels_, sheet_width(), sheet_height(), static_cast<size_t>(layout_.channels));
  }
  std::string range() const {
    if (!(least_ <= greatest_)) return "no value is finite";
    return fmt::format("black {}, white {}", human_number(least_), human_number(greatest_));
  }
  int64_t stride() const { return stride_; }

 private:
  /// Calls visit(value, index) for each pixel value, with the index of its byte in the sheet.
  template <typename Elements, typename Visit>
  void visit(const Elements& elements, const Visit& visit) const {
    for (int64_t i = 0; i < shown_; ++i)
      for (int64_t y = 0; y < height_; ++y)
        for (int64_t x = 0; x < width_; ++x)
          for (int64_t c = 0; c < layout_.channels; ++c) {
            const int64_t from = i * layout_.of_picture + c * layout_.of_channel +
                                 y * stride_ * layout_.of_row + x * stride_ * layout_.of_pixel;
            const int64_t row = i / columns_ * (height_ + kGap) + y;
            const int64_t column = i % columns_ * (width_ + kGap) + x;
            const int64_t to =
                (row * static_cast<int64_t>(sheet_width()) + column) * layout_.channels + c;
            visit(static_cast<double>(elements[static_cast<size_t>(from)]),
                  static_cast<size_t>(to));
          }
  }

  const Layout layout_;
  const int64_t stride_, height_, width_, columns_, rows_, shown_;
  double least_ = std::numeric_limits<double>::infinity(), greatest_ = -least_;
  std::vector<uint8_t> pixels_;
};

}  // namespace

std::string png_uri(std::span<const uint8_t> pixels, size_t width, size_t height, size_t channels) {
  FLOW_CHECK(pixels.size() == width * height * channels && !pixels.empty(), "{} pixels",
             pixels.size());
  std::string header;
  append_big_endian(header, static_cast<uint32_t>(width));
  append_big_endian(header, static_cast<uint32_t>(height));
  constexpr char kGray = 0, kColor = 2;
  for (const char byte : {char{8}, channels == 3 ? kColor : kGray, char{0}, char{0}, char{0}})
    header += byte;  // bit depth, color type, compression, filter, interlacing
  std::string rows;
  for (size_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * width * channels,
                width * channels);
  }
  std::string png = "\x89PNG\r\n\x1a\n";
  append_chunk(png, "IHDR", header);
  append_chunk(png, "IDAT", compressed(rows));
  append_chunk(png, "IEND", "");
  return "data:image/png;base64," + base64(png);
}

void draw_pictures(const ArrayView& slice, Sample& sample) {
  if (slice.dtype == DType::kBool) return;
  const auto layout = layout_of(slice.shape);
  if (!layout || layout->count < 1) return;
  const int64_t shown = std::min(layout->count, kMostPictures);
  Sheet sheet(*layout, shown);
  io::visit_elements(slice, [&](auto elements) { sheet.draw(elements); });
  sample.picture = sheet.uri();
  sample.picture_width = sheet.sheet_width();
  sample.picture_height = sheet.sheet_height();
  sample.caption = shown < layout->count
                       ? fmt::format("the first {} of {} pictures; ", shown, layout->count)
                       : "";
  if (sheet.stride() > 1)
    sample.caption += fmt::format("every {}th row and column; ", sheet.stride());
  sample.caption += sheet.range();
}

}  // namespace flow::cli::report
