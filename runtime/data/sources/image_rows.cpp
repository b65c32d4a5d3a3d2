// Decodes the images of rows.
#include "runtime/data/sources/image_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "runtime/data/files/unpack.h"

namespace flow::data {
namespace {

Channels channels_of(plan::ImageFormat::Channels channels) {
  switch (channels) {
    case plan::ImageFormat::Channels::kGrey:
      return Channels::kGray;
    case plan::ImageFormat::Channels::kRgba:
      return Channels::kRgba;
    case plan::ImageFormat::Channels::kRgb:
      break;
  }
  return Channels::kRgb;
}

FitMode mode_of(const plan::ImageFormat& format) {
  if (format.size.shorter > 0) return FitMode::kShort;
  switch (format.fit) {
    case plan::ImageFormat::Fit::kStretch:
      return FitMode::kStretch;
    case plan::ImageFormat::Fit::kPad:
      return FitMode::kPad;
    case plan::ImageFormat::Fit::kCrop:
      break;
  }
  return FitMode::kCrop;
}

}  // namespace

std::span<const std::byte> read_image_file(const fs::path& path, const std::string& name,
                                           std::vector<std::byte>& memory) {
  try {
    require_regular_file(path);
    File file = File::open_read(path);
    constexpr uint64_t kLargest = uint64_t{1} << 30;
    if (file.size() > kLargest)
      throw RunError(
          fmt::format("the file has {} bytes; expected at most {}", file.size(), kLargest));
    memory.resize(file.size());
    memory.resize(file.read(memory));
    return memory;
  } catch (const RunError& error) {
    throw BadRowError(fmt::format("{}: {}", name, error.what()), error.hint());
  }
}

DecodeOptions decode_options(const plan::ImageFormat& format) {
  DecodeOptions options{
      .channels = channels_of(format.channels),
      .bits = static_cast<int>(format.bits),
      .apply_orientation = format.orientation == plan::ImageFormat::Orientation::kExif,
      .background = std::nullopt,
      .max_pixels = format.max_pixels};
  if (format.background) {
    options.background.emplace();
    for (size_t i = 0; i < format.background->size(); ++i)
      (*options.background)[i] = static_cast<uint8_t>((*format.background)[i]);
  }
  return options;
}

std::optional<Fit> fit_of(const plan::ImageFormat& format) {
  if (!format.size) return std::nullopt;
  const plan::ImageSize& size = format.size;
  return Fit{
      mode_of(format),
      size.shorter > 0 ? ImageSize{size.shorter, size.shorter} : ImageSize{size.height, size.width},
      format.filter, static_cast<uint16_t>(format.fill), format.max_pixels};
}

ImageRows::ImageRows(const plan::ImageFormat& format, std::unique_ptr<ImageFiles> files)
    : options_(decode_options(format)), fit_(fit_of(format)), files_(std::move(files)) {}

StoredElement ImageRows::element() const {
  if (options_.bits == 8) return {DType::kUInt8};
  return {DType::kInt32, io::Narrow::kUInt16, std::endian::native == std::endian::big};
}

RunError ImageRows::bad_row(int64_t row) const {
  return std::ranges::binary_search(files_->bad_rows(), row) ? files_->bad_row(row)
                                                             : SourceRows::bad_row(row);
}

std::span<const std::byte> ImageRows::read(int64_t row, const RowDraws&, Scratch& scratch) const {
  const std::span<const std::byte> bytes = files_->bytes(row, scratch.bytes);
  try {
    decode_image(bytes, options_, scratch.image);
    if (fit_) {
      fit_image(scratch.image, *fit_, scratch.other);
      std::swap(scratch.image, scratch.other);
    }
  } catch (const RunError& error) {
    throw BadRowError(fmt::format("{}: {}", files_->row_text(row), error.what()), error.hint());
  }
  return scratch.image.data;
}

std::optional<ImageSize> ImageRows::stored_size(int64_t row, Scratch& scratch) const {
  const std::span<const std::byte> bytes = files_->bytes(row, scratch.bytes);
  try {
    return read_image_header(bytes, options_).size;
  } catch (const RunError& error) {
    throw BadRowError(fmt::format("{}: {}", files_->row_text(row), error.what()), error.hint());
  }
}

}  // namespace flow::data
