// Reads the orientation of EXIF data and turns images.
#include "runtime/data/image/orientation.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "runtime/base/error.h"

namespace flow::data {
namespace {

/// Integers of a TIFF structure, in the byte order of its header.
class TiffReader {
 public:
  explicit TiffReader(std::span<const std::byte> bytes) : bytes_(bytes) {
    constexpr std::array<uint8_t, 4> kBigEndian = {'M', 'M', 0, '*'};
    constexpr std::array<uint8_t, 4> kLittleEndian = {'I', 'I', '*', 0};
    const auto starts_with = [&](const std::array<uint8_t, 4>& magic) {
      return bytes.size() >= magic.size() &&
             std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
    };
    big_endian_ = starts_with(kBigEndian);
    valid_ = big_endian_ || starts_with(kLittleEndian);
  }

  bool valid() const { return valid_; }
  std::optional<uint32_t> u16(size_t at) const { return integer(at, 2); }
  std::optional<uint32_t> u32(size_t at) const { return integer(at, 4); }

 private:
  std::optional<uint32_t> integer(size_t at, size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return {};
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value = value << 8 | std::to_integer<uint32_t>(bytes_[at + (big_endian_ ? i : size - 1 - i)]);
    return value;
  }

  std::span<const std::byte> bytes_;
  bool big_endian_ = false;
  bool valid_ = false;
};

/// Where the pixels of a turned plane are in the original: first + y * of_row + x * of_column.
struct Walk {
  int64_t first, of_row, of_column;
};

Walk walk_of(int orientation, int64_t height, int64_t width) {
  const int64_t last_row = (height - 1) * width, last_column = width - 1;
  switch (orientation) {
    case 2:
      return {last_column, width, -1};
    case 3:
      return {last_row + last_column, -width, -1};
    case 4:
      return {last_row, -width, 1};
    case 5:
      return {0, 1, width};
    case 6:
      return {last_row, 1, -width};
    case 7:
      return {last_row + last_column, -1, -width};
    case 8:
      return {last_column, -1, width};
    default:
      return {0, width, 1};
  }
}

template <typename Sample>
void orient_planes(const Image& image, const Walk& walk, Image& out) {
  for (int64_t c = 0; c < image.channels; ++c) {
    const Sample* from = image.plane<Sample>(c).data();
    Sample* to = out.plane<Sample>(c).data();
    for (int64_t y = 0; y < out.height; ++y)
      for (int64_t x = 0; x < out.width; ++x)
        *to++ = from[walk.first + y * walk.of_row + x * walk.of_column];
  }
}

}  // namespace

int exif_orientation(std::span<const std::byte> exif) {
  constexpr uint32_t kOrientation = 0x0112, kShort = 3;
  constexpr size_t kEntryBytes = 12;
  const TiffReader tiff(exif);
  if (!tiff.valid()) return 1;
  const size_t directory = tiff.u32(4).value_or(0);
  const size_t entries = tiff.u16(directory).value_or(0);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    const auto tag = tiff.u16(entry);
    if (!tag) return 1;
    if (*tag != kOrientation) continue;
    const uint32_t value = tiff.u16(entry + 8).value_or(1);
    const bool is_one_short = tiff.u16(entry + 2) == kShort && tiff.u32(entry + 4) == 1u;
    return is_one_short && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void orient(const Image& image, int orientation, Image& out) {
  FLOW_CHECK(orientation >= 1 && orientation <= 8 && &image != &out);
  if (swaps_sides(orientation))
    out.reshape(image.channels, image.width, image.height, image.bits);
  else
    out.reshape(image.channels, image.height, image.width, image.bits);
  const Walk walk = walk_of(orientation, image.height, image.width);
  if (image.bits == 8)
    orient_planes<uint8_t>(image, walk, out);
  else
    orient_planes<uint16_t>(image, walk, out);
}

}  // namespace flow::data
