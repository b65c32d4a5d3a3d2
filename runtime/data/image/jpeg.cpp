// Decodes JPEG images with libjpeg-turbo and its defaults. Only this file uses the library.
#include <fmt/format.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

// jpeglib.h requires the declarations of cstdio.
#include <jpeglib.h>
// jerror.h requires those of jpeglib.h.
#include <jerror.h>

#include "runtime/base/error.h"
#include "runtime/data/image/formats.h"
#include "runtime/data/image/interleaved.h"
#include "runtime/data/image/orientation.h"

namespace flow::data {
namespace {

constexpr int kExif = JPEG_APP0 + 1;
constexpr std::string_view kExifStart{"Exif\0\0", 6};

/// The state that the callbacks of the library share with the decoder. `manager` is the first
/// member, so that a pointer to it is a pointer to the whole.
struct JpegErrors {
  jpeg_error_mgr manager{};
  std::jmp_buf jump{};
  bool too_many_scans = false;
};

JpegErrors& errors_of(j_common_ptr info) { return *reinterpret_cast<JpegErrors*>(info->err); }

[[noreturn]] void leave(j_common_ptr info) { std::longjmp(errors_of(info).jump, 1); }

/// A warning means that the library makes up samples, except for three warnings, which do not
/// affect any sample.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR)
    leave(info);
}

void print_nothing(j_common_ptr) {}

/// Limits the number of scans, because a small file with many scans of a large image would take
/// long to decode. Encoders write about ten.
void check_scans(j_common_ptr info) {
  constexpr int kMostScans = 100;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  errors_of(info).too_many_scans = true;
  leave(info);
}

RunError unsupported(const std::string& what) {
  return RunError(fmt::format("JPEG with {} is not supported", what),
                  "convert the image to a baseline or progressive JPEG with 8 bits a sample");
}

/// One decompression. The library leaves its functions by longjmp, so all calls are made through
/// `call`, whose argument owns nothing.
class Jpeg {
 public:
  explicit Jpeg(std::span<const std::byte> bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = leave;
    errors_.manager.emit_message = on_message;
    errors_.manager.output_message = print_nothing;
    progress_.progress_monitor = check_scans;
  }
  ~Jpeg() { jpeg_destroy_decompress(&info_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  /// Reads all that precedes the first scan and selects the colors of the result.
  StoredHeader read_header();
  /// Reads the samples. REQUIRES: read_header() has been called.
  void read_samples(Image& out);

 private:
  template <typename Step>
  bool attempt(const Step& step) {
    if (setjmp(errors_.jump) != 0) return false;
    step();
    return true;
  }
  template <typename Step>
  void call(const Step& step) {
    if (!attempt(step)) throw_error();
  }
  [[noreturn]] void throw_error();
  void select_colors();
  int orientation() const;

  std::span<const std::byte> bytes_;
  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  JpegErrors errors_;
};

void Jpeg::throw_error() {
  const auto* parameters = errors_.manager.msg_parm.i;
  if (errors_.too_many_scans) throw unsupported("over 100 scans");
  switch (errors_.manager.msg_code) {
    case JERR_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case JERR_BAD_PRECISION:
      throw unsupported(fmt::format("{} bits a sample", parameters[0]));
    case JERR_SOF_UNSUPPORTED:
      throw unsupported(
          fmt::format("lossless or hierarchical coding (SOF{})", parameters[0] - 0xc0));
    case JERR_ARITH_NOTIMPL:
      throw unsupported("arithmetic coding");
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
    case JWRN_JPEG_EOF:
      throw RunError("truncated JPEG");
    default:
      break;
  }
  std::array<char, JMSG_LENGTH_MAX> buffer{};
  errors_.manager.format_message(reinterpret_cast<j_common_ptr>(&info_), buffer.data());
  std::string_view text = buffer.data();
  constexpr std::string_view kPrefix = "Corrupt JPEG data: ";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  throw RunError(fmt::format("damaged JPEG: {}", text));
}

void Jpeg::select_colors() {
  switch (info_.jpeg_color_space) {
    case JCS_GRAYSCALE:
      info_.out_color_space = JCS_GRAYSCALE;
      break;
    case JCS_YCbCr:
    case JCS_RGB:
      info_.out_color_space = JCS_RGB;
      break;
    case JCS_CMYK:
    case JCS_YCCK:
      info_.out_color_space = JCS_CMYK;
      break;
    default:
      throw unsupported(fmt::format("{} components", info_.num_components));
  }
}

int Jpeg::orientation() const {
  for (const auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
    const std::span<const JOCTET> data(marker->data, marker->data_length);
    if (data.size() >= kExifStart.size() &&
        std::memcmp(data.data(), kExifStart.data(), kExifStart.size()) == 0)
      return exif_orientation(std::as_bytes(data.subspan(kExifStart.size())));
  }
  return 1;
}

StoredHeader Jpeg::read_header() {
  constexpr unsigned kLongestMarker = 0xffff;
  call([&] {
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_save_markers(&info_, kExif, kLongestMarker);
    jpeg_read_header(&info_, TRUE);
  });
  if (info_.arith_code) throw unsupported("arithmetic coding");
  if (info_.data_precision != 8)
    throw unsupported(fmt::format("{} bits a sample", info_.data_precision));
  select_colors();
  return {{info_.image_height, info_.image_width}, info_.num_components, orientation()};
}

/// Returns a * b / 255, rounded.
int scaled(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// Converts a row of inverted CMYK, as Adobe's programs store it, to RGB in place.
void cmyk_to_rgb(JSAMPLE* row, size_t width) {
  for (size_t x = 0; x < width; ++x) {
    const int white = row[4 * x + 3];  // 255 minus the black component
    for (size_t c = 0; c < 3; ++c)
      row[3 * x + c] = static_cast<JSAMPLE>(white - scaled(255 - row[4 * x + c], white));
  }
}

void Jpeg::read_samples(Image& out) {
  constexpr size_t kRows = 4;  // the library gives at most the rows of a sampling unit at once
  call([&] { jpeg_start_decompress(&info_); });
  const bool is_cmyk = info_.out_color_space == JCS_CMYK;
  out.reshape(info_.out_color_space == JCS_GRAYSCALE ? 1 : 3, info_.output_height,
              info_.output_width, 8);
  const size_t width = info_.output_width;
  const size_t row_bytes = width * static_cast<size_t>(info_.output_components);
  std::vector<JSAMPLE> buffer(kRows * row_bytes);
  std::array<JSAMPROW, kRows> rows;
  for (size_t i = 0; i < kRows; ++i) rows[i] = buffer.data() + i * row_bytes;
  call([&] {
    while (info_.output_scanline < info_.output_height) {
      const JDIMENSION first = info_.output_scanline;
      const JDIMENSION count = jpeg_read_scanlines(&info_, rows.data(), kRows);
      for (JDIMENSION i = 0; i < count; ++i) {
        if (is_cmyk) cmyk_to_rgb(rows[i], width);
        split_row(reinterpret_cast<const std::byte*>(rows[i]), first + i, out);
      }
    }
    jpeg_finish_decompress(&info_);
  });
}

/// Throws RunError if so few bytes cannot contain so many pixels. Every block of 8 x 8 samples
/// takes at least a bit, and the largest sampling factors are 4 x 4.
void check_length(size_t bytes, ImageSize size) {
  constexpr size_t kMostPixelsPerByte = size_t{8} * 64 * 16;
  if (static_cast<size_t>(size.height * size.width) / kMostPixelsPerByte > bytes)
    throw RunError("truncated JPEG");
}

}  // namespace

StoredHeader decode_jpeg(std::span<const std::byte> bytes, int64_t max_pixels, Image& out) {
  Jpeg jpeg(bytes);
  const StoredHeader header = jpeg.read_header();
  check_pixels(header.size, max_pixels);
  check_length(bytes.size(), header.size);
  jpeg.read_samples(out);
  return header;
}

StoredHeader read_jpeg_header(std::span<const std::byte> bytes) {
  return Jpeg(bytes).read_header();
}

}  // namespace flow::data
