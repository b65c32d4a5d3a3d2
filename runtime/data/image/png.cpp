// Decodes and encodes PNG images with libpng. Only this file uses the library.
#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/image/encode.h"
#include "runtime/data/image/formats.h"
#include "runtime/data/image/interleaved.h"
#include "runtime/data/image/orientation.h"
#include "runtime/io/gunzip.h"

namespace flow::data {
namespace {

/// The state that the callbacks of the library share with the reader and the writer.
struct PngState {
  std::jmp_buf jump{};
  std::array<char, 128> message{};
  bool truncated = false;
  std::span<const std::byte> rest;  // bytes that the library has not read yet
  std::vector<std::byte> written;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto& state = *static_cast<PngState*>(png_get_error_ptr(png));
  const std::string_view text = message;
  text.copy(state.message.data(), state.message.size() - 1);
  std::longjmp(state.jump, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto& state = *static_cast<PngState*>(png_get_io_ptr(png));
  if (count > state.rest.size()) {
    state.truncated = true;
    png_error(png, "truncated");
  }
  std::memcpy(to, state.rest.data(), count);
  state.rest = state.rest.subspan(count);
}

void write_bytes(png_structp png, png_bytep from, size_t count) {
  auto& written = static_cast<PngState*>(png_get_io_ptr(png))->written;
  const auto* bytes = reinterpret_cast<const std::byte*>(from);
  try {
    written.insert(written.end(), bytes, bytes + count);
  } catch (const std::bad_alloc&) {
    written.clear();
  }
  if (written.empty()) png_error(png, "out of memory");
}

void flush_nothing(png_structp) {}

/// Calls `step`. Returns false if the library left it by longjmp, which runs no destructors, so
/// `step` must own nothing.
template <typename Step>
bool attempt(PngState& state, const Step& step) {
  if (setjmp(state.jump) != 0) return false;
  step();
  return true;
}

/// One image that is read.
class Png {
 public:
  explicit Png(std::span<const std::byte> bytes) : bytes_(bytes) { state_.rest = bytes; }
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  /// Reads the chunks that precede the samples.
  StoredHeader read_header();
  /// Reads the samples and the rest. REQUIRES: read_header() has been called.
  void read_samples(int bits, Image& out);

 private:
  template <typename Step>
  void call(const Step& step) {
    if (!attempt(state_, step)) throw_error();
  }
  [[noreturn]] void throw_error() const;
  /// Asks for whole bytes, colors instead of a palette, and alpha instead of a transparent color.
  int set_transformations(int bits);
  void check_length(size_t row_bytes, size_t height) const;

  std::span<const std::byte> bytes_;
  PngState state_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

void Png::throw_error() const {
  constexpr std::string_view kChecksum = ": CRC error";
  const std::string_view text = state_.message.data();
  if (state_.truncated) throw RunError("truncated PNG");
  if (text.ends_with(kChecksum))
    throw RunError(fmt::format("PNG with a wrong checksum in chunk {}",
                               text.substr(0, text.size() - kChecksum.size())));
  throw RunError(fmt::format("damaged PNG: {}", text));
}

uint32_t big_endian(std::span<const std::byte, 4> bytes) {
  uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<uint32_t>(byte);
  return value;
}

/// Returns the orientation in the eXIf chunk, which may also follow the samples.
int png_orientation(std::span<const std::byte> bytes) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, type and checksum of a chunk
  for (auto rest = bytes.subspan(kSignature); rest.size() >= kAround;) {
    const size_t length = big_endian(rest.first<4>());
    if (length > rest.size() - kAround) return 1;
    const auto checked = rest.subspan(4, 4 + length);
    const std::string_view type(reinterpret_cast<const char*>(checked.data()), 4);
    if (type == "IEND") return 1;
    const auto checksum = rest.subspan(8 + length).first<4>();
    if (type == "eXIf")
      return io::zip_checksum(checked) == big_endian(checksum)
                 ? exif_orientation(checked.subspan(4))
                 : 1;
    rest = rest.subspan(kAround + length);
  }
  return 1;
}

StoredHeader Png::read_header() {
  call([&] {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, on_error, ignore_warning);
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    png_set_read_fn(png_, &state_, read_bytes);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // No chunk other than IHDR, PLTE, tRNS and IDAT affects the samples.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
  });
  if (png_ == nullptr) throw std::bad_alloc();
  const int type = png_get_color_type(png_, info_);
  const bool has_alpha =
      (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
  return {{png_get_image_height(png_, info_), png_get_image_width(png_, info_)},
          ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + has_alpha,
          png_orientation(bytes_)};
}

int Png::set_transformations(int bits) {
  int passes = 1;
  call([&] {
    png_set_expand(png_);
    if (bits == 8)
      png_set_scale_16(png_);
    else if (std::endian::native == std::endian::little)
      png_set_swap(png_);
    passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  });
  return passes;
}

/// Throws RunError if the file is too short for its samples: deflate packs at most 1032 to 1, and a
/// palette of two colors expands 1 bit to the 32 of RGBA.
void Png::check_length(size_t row_bytes, size_t height) const {
  constexpr size_t kMostExpanded = 32;
  if (row_bytes / kMostExpanded * height > io::Gunzip::bound(bytes_.size()))
    throw RunError("truncated PNG");
}

void Png::read_samples(int bits, Image& out) {
  const int passes = set_transformations(bits);
  const size_t height = png_get_image_height(png_, info_);
  const size_t row_bytes = png_get_rowbytes(png_, info_);
  check_length(row_bytes, height);
  out.reshape(png_get_channels(png_, info_), static_cast<int64_t>(height),
              png_get_image_width(png_, info_), png_get_bit_depth(png_, info_));
  // All rows of an interlaced image are kept, because only the last pass completes them.
  std::vector<std::byte> rows(passes == 1 ? row_bytes : row_bytes * height);
  const size_t step = passes == 1 ? 0 : row_bytes;
  call([&] {
    // Errors in the compressed data count even if they do not affect a sample.
    png_set_benign_errors(png_, 0);
    for (int pass = 0; pass < passes; ++pass)
      for (size_t y = 0; y < height; ++y) {
        std::byte* row = rows.data() + y * step;
        png_read_row(png_, reinterpret_cast<png_bytep>(row), nullptr);
        if (pass + 1 == passes) split_row(row, static_cast<int64_t>(y), out);
      }
    png_set_benign_errors(png_, 1);
    png_read_end(png_, nullptr);
  });
}

/// One image that is written to memory.
class PngWriter {
 public:
  PngWriter() = default;
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  std::vector<std::byte> write(const Image& image);

 private:
  void write_header(const Image& image);

  PngState state_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

void PngWriter::write_header(const Image& image) {
  png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &state_, on_error, ignore_warning);
  if (png_ == nullptr) std::longjmp(state_.jump, 1);
  info_ = png_create_info_struct(png_);
  png_set_write_fn(png_, &state_, write_bytes, flush_nothing);
  constexpr std::array kTypes = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGBA};
  png_set_IHDR(png_, info_, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), image.bits,
               kTypes[static_cast<size_t>(image.channels - 1)], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png_, info_);
  if (image.bits == 16 && std::endian::native == std::endian::little) png_set_swap(png_);
}

std::vector<std::byte> PngWriter::write(const Image& image) {
  std::vector<std::byte> row(image.data.size() / static_cast<size_t>(image.height));
  const bool done = attempt(state_, [&] {
    write_header(image);
    for (int64_t y = 0; y < image.height; ++y) {
      join_row(image, y, row.data());
      png_write_row(png_, reinterpret_cast<png_const_bytep>(row.data()));
    }
    png_write_end(png_, nullptr);
  });
  // The image is valid, so the only error is that memory is exhausted.
  if (!done) throw std::bad_alloc();
  return std::move(state_.written);
}

}  // namespace

StoredHeader decode_png(std::span<const std::byte> bytes, int bits, int64_t max_pixels,
                        Image& out) {
  Png png(bytes);
  const StoredHeader header = png.read_header();
  check_pixels(header.size, max_pixels);
  png.read_samples(bits, out);
  return header;
}

StoredHeader read_png_header(std::span<const std::byte> bytes) { return Png(bytes).read_header(); }

std::vector<std::byte> encode_png(const Image& image) {
  constexpr int64_t kLongestSide = 1'000'000;  // the library's limit
  FLOW_CHECK(image.channels >= 1 && image.channels <= 4 && image.height >= 1 && image.width >= 1 &&
                 image.height <= kLongestSide && image.width <= kLongestSide,
             "{} x {} x {}", image.channels, image.height, image.width);
  return PngWriter().write(image);
}

}  // namespace flow::data
