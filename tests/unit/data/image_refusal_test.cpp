// Damaged, truncated and unsupported images, and JPEGs of all samplings, which the test encodes.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// jpeglib.h requires the declarations of cstdio.
#include <jpeglib.h>
#include <zlib.h>

#include "runtime/base/error.h"
#include "runtime/data/image/decode.h"
#include "tests/support/image_cases.h"

namespace flow::data {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using test::image_golden;
using test::samples_of;

std::string golden_file(const std::string& name) {
  const auto bytes = image_golden().at(name + ".file").bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Image decode(std::string_view file, const DecodeOptions& options = {}) {
  Image image;
  decode_image(std::as_bytes(std::span(file)), options, image);
  return image;
}

/// The message with which a file is refused, or "decoded".
std::string refusal(std::string_view file, const DecodeOptions& options = {}) {
  try {
    decode(file, options);
    return "decoded";
  } catch (const RunError& error) {
    CHECK(error.exit_status() == kRunFailed);
    return error.what();
  }
}

std::string header_refusal(std::string_view file) {
  try {
    read_image_header(std::as_bytes(std::span(file)), {});
    return "read";
  } catch (const RunError& error) {
    return error.what();
  }
}

std::string big_endian(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<uint32_t>(data.size()), 4) + body +
         big_endian(static_cast<uint32_t>(crc), 4);
}

std::string compressed(const std::string& text) {
  std::string out(compressBound(text.size()), '\0');
  uLongf size = out.size();
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
           text.size());
  out.resize(size);
  return out;
}

const std::string kSignature = "\x89PNG\r\n\x1a\n";

std::string gray_header(uint32_t width, uint32_t height) {
  return chunk("IHDR", big_endian(width, 4) + big_endian(height, 4) + "\x08\0\0\0\0"s);
}

/// A gray PNG of 2 x 2 pixels with these chunks.
std::string small_png(const std::string& idat, const std::string& before = {},
                      const std::string& end = chunk("IEND", {})) {
  return kSignature + gray_header(2, 2) + before + idat + end;
}

const std::string kRows = "\0\x01\x02\0\x03\x04"s;

TEST_CASE("unknown formats are refused", "[data]") {
  CHECK(refusal("") == "the image is empty");
  for (const std::string_view file : {"GIF89a...."sv, "\x89PNG"sv, "\xff\xd8"sv, "BM"sv, "\0"sv}) {
    CHECK(refusal(file) == "unknown image format; expected PNG or JPEG");
    CHECK(header_refusal(file) == "unknown image format; expected PNG or JPEG");
  }
}

TEST_CASE("damaged PNGs are refused", "[data]") {
  const std::string idat = chunk("IDAT", compressed(kRows));
  CHECK(samples_of(decode(small_png(idat), {.channels = Channels::kGray})) ==
        std::vector{1, 2, 3, 4});
  std::string damaged = idat;
  damaged.back() ^= 1;
  CHECK(refusal(small_png(damaged)) == "PNG with a wrong checksum in chunk IDAT");
  std::string header = small_png(idat);
  header[20] ^= 1;
  CHECK(refusal(header) == "PNG with a wrong checksum in chunk IHDR");
  std::string end = chunk("IEND", {});
  end.back() ^= 1;
  CHECK(refusal(small_png(idat, {}, end)) == "PNG with a wrong checksum in chunk IEND");
  CHECK(refusal(small_png({})) == "damaged PNG: IEND: out of place");
  CHECK(refusal(small_png(idat, {}, {})) == "truncated PNG");
  CHECK(refusal(small_png(chunk("IDAT", compressed(kRows.substr(0, 5))))) ==
        "damaged PNG: Not enough image data");
  CHECK(refusal(small_png(chunk("IDAT", "not zlib"))).starts_with("damaged PNG: IDAT: "));
  std::string checksum = compressed(kRows);  // Adler-32 at the end of the stream
  checksum.back() ^= 1;
  CHECK(refusal(small_png(chunk("IDAT", checksum))).starts_with("damaged PNG: IDAT: "));
  CHECK(refusal(small_png(chunk("IDAT", compressed("\x07" + kRows.substr(1))))) ==
        "damaged PNG: bad adaptive filter value");
  CHECK(refusal(small_png(chunk("CRIT", "x") + idat)).starts_with("damaged PNG: CRIT"));
}

TEST_CASE("damaged ancillary chunks and data after the end are ignored", "[data]") {
  const std::string idat = chunk("IDAT", compressed(kRows));
  std::string text = chunk("tEXt", "a\0b"s);
  text.back() ^= 1;
  CHECK(refusal(small_png(idat, text)) == "decoded");
  CHECK(refusal(small_png(idat, chunk("iCCP", "damaged") + chunk("gAMA", "x"))) == "decoded");
  CHECK(refusal(small_png(idat) + "more") == "decoded");
  CHECK(refusal(small_png(idat, {}, text + chunk("IEND", {}))) == "decoded");
}

TEST_CASE("every truncation of an image is refused", "[data]") {
  for (const std::string name : {"rgb8", "palette2_alpha", "rgba8_interlaced", "exif6_png",
                                 "jpeg420", "jpeg422_progressive", "jpeg_cmyk", "exif5_jpeg"}) {
    INFO(name);
    const std::string file = golden_file(name);
    for (size_t size = 0; size < file.size(); ++size)
      CHECK(refusal(file.substr(0, size)) != "decoded");
    CHECK(refusal(file.substr(0, file.size() - 1)).starts_with("truncated "));
  }
}

TEST_CASE("images with too many pixels are refused by their header", "[data]") {
  CHECK(refusal(golden_file("rgb8"), {.max_pixels = 29}) ==
        "the image has 6 x 5 pixels; the limit is 29");
  CHECK(refusal(golden_file("rgb8"), {.max_pixels = 30}) == "decoded");
  CHECK(refusal(golden_file("jpeg420"), {.max_pixels = 1000}) ==
        "the image has 29 x 43 pixels; the limit is 1000");
  const std::string idat = chunk("IDAT", compressed(kRows));
  CHECK(refusal(kSignature + gray_header(0x7fffffff, 0x7fffffff) + idat) ==
        "the image has 2147483647 x 2147483647 pixels; the limit is 100000000");
  CHECK(refusal(kSignature + gray_header(0, 1) + idat).starts_with("damaged PNG: "));
  // The file is too short for its samples, so no memory is allocated for them.
  CHECK(refusal(kSignature + gray_header(10000, 10000) + idat) == "truncated PNG");
  std::string jpeg = golden_file("jpeg420_progressive");
  const size_t frame = jpeg.find("\xff\xc2"sv);
  jpeg.replace(frame + 5, 4, big_endian(9999, 2) + big_endian(9999, 2));
  CHECK(refusal(jpeg) == "truncated JPEG");
}

/// Encodes noise with libjpeg after `configure` has changed its parameters.
template <typename Configure>
std::string encode_jpeg(int width, int height, J_COLOR_SPACE colors, const Configure& configure) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.in_color_space = colors;
  info.input_components = colors == JCS_CMYK ? 4 : colors == JCS_UNKNOWN ? 2 : 3;
  jpeg_set_defaults(&info);
  configure(info);
  jpeg_start_compress(&info, TRUE);
  std::vector<JSAMPLE> row(static_cast<size_t>(width * info.input_components));
  unsigned state = 1;
  while (info.next_scanline < info.image_height) {
    for (JSAMPLE& sample : row) sample = static_cast<JSAMPLE>((state = state * 69069 + 1) >> 24);
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(memory), size);
  std::free(memory);
  return file;
}

/// Decodes with the library's defaults to interleaved samples.
std::vector<JSAMPLE> decode_plainly(const std::string& file, J_COLOR_SPACE colors) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = colors;
  jpeg_start_decompress(&info);
  const size_t row_samples = info.output_width * static_cast<size_t>(info.output_components);
  std::vector<JSAMPLE> samples(row_samples * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = samples.data() + info.output_scanline * row_samples;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return samples;
}

TEST_CASE("JPEGs of all samplings decode as with the library's defaults", "[data]") {
  for (const int across : {1, 2, 4})
    for (const int down : {1, 2, 4})
      for (const bool progressive : {false, true}) {
        if (across * down > 8) continue;
        INFO(across << " x " << down);
        const std::string file = encode_jpeg(45, 37, JCS_RGB, [&](jpeg_compress_struct& info) {
          info.comp_info[0].h_samp_factor = across;
          info.comp_info[0].v_samp_factor = down;
          if (progressive) jpeg_simple_progression(&info);
        });
        const std::vector<JSAMPLE> expected = decode_plainly(file, JCS_RGB);
        const std::vector<int> samples = samples_of(decode(file));
        REQUIRE(samples.size() == expected.size());
        for (size_t i = 0; i < expected.size(); ++i)
          REQUIRE(samples[i % 3 * 45 * 37 + i / 3] == expected[i]);
      }
}

TEST_CASE("a JPEG that stores RGB decodes without a conversion", "[data]") {
  const std::string file = encode_jpeg(
      9, 8, JCS_RGB, [](jpeg_compress_struct& info) { jpeg_set_colorspace(&info, JCS_RGB); });
  const std::vector<JSAMPLE> expected = decode_plainly(file, JCS_RGB);
  const std::vector<int> samples = samples_of(decode(file));
  for (size_t i = 0; i < expected.size(); ++i) CHECK(samples[i % 3 * 72 + i / 3] == expected[i]);
}

TEST_CASE("YCCK becomes RGB as inverted CMYK", "[data]") {
  const std::string file = encode_jpeg(
      20, 11, JCS_CMYK, [](jpeg_compress_struct& info) { jpeg_set_colorspace(&info, JCS_YCCK); });
  const std::vector<JSAMPLE> cmyk = decode_plainly(file, JCS_CMYK);
  const std::vector<int> samples = samples_of(decode(file));
  const size_t plane = 20 * 11;
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c) {
      const int ink = 255 - cmyk[4 * i + c], rest = cmyk[4 * i + 3];
      const int t = ink * rest + 128;
      CHECK(samples[c * plane + i] == rest - ((t / 256 + t) / 256));
    }
}

TEST_CASE("damaged and unsupported JPEGs are refused", "[data]") {
  CHECK(refusal(encode_jpeg(16, 16, JCS_RGB, [](auto& info) { info.arith_code = TRUE; })) ==
        "JPEG with arithmetic coding is not supported");
  CHECK(refusal(encode_jpeg(16, 16, JCS_UNKNOWN, [](auto&) {})) ==
        "JPEG with 2 components is not supported");
  const std::string file = golden_file("jpeg420");
  const size_t frame = file.find("\xff\xc0"sv);
  std::string other = file;
  other[frame + 4] = 12;
  CHECK(refusal(other) == "JPEG with 12 bits a sample is not supported");
  CHECK(header_refusal(other) == "JPEG with 12 bits a sample is not supported");
  other = file;
  other[frame + 1] = '\xc3';
  CHECK(refusal(other) == "JPEG with lossless or hierarchical coding (SOF3) is not supported");
  other = file;
  other.replace(frame + 5, 2, "\0\0"sv);
  CHECK(refusal(other).starts_with("damaged JPEG: "));
  other = golden_file("jpeg_restarts");
  const size_t restart = other.find("\xff\xd1"sv);
  other[restart + 1] = '\xd4';
  CHECK(refusal(other).starts_with("damaged JPEG: "));
  other = file.substr(0, frame) + file.substr(file.find("\xff\xda"sv));
  CHECK(refusal(other).starts_with("damaged JPEG: "));
}

TEST_CASE("warnings that affect no sample are ignored", "[data]") {
  const std::string file = golden_file("jpeg420");
  std::string other = file;
  other.insert(other.find("\xff\xdb"sv), "junk");  // bytes before a marker
  CHECK(refusal(other) == "decoded");
  other = file;
  other[file.find("JFIF") + 5] = 7;  // version 7
  CHECK(refusal(other) == "decoded");
  other = golden_file("jpeg_cmyk");
  other[other.find("Adobe") + 11] = 9;  // color transform
  CHECK(refusal(other) == "decoded");
  CHECK(refusal(file + "more") == "decoded");
  CHECK(samples_of(decode(file + "more")) == samples_of(decode(file)));
}

TEST_CASE("a JPEG with too many scans is refused", "[data]") {
  const std::string progressive = encode_jpeg(16, 16, JCS_RGB, [](jpeg_compress_struct& info) {
    static std::vector<jpeg_scan_info> scans(120);
    for (jpeg_scan_info& one : scans) one = {1, {0, 0, 0, 0}, 1, 63, 0, 0};
    scans[0] = {3, {0, 1, 2, 0}, 0, 0, 0, 0};
    for (size_t i = 1; i < scans.size(); ++i) {
      // Each coefficient of each component has its own scan.
      const int coefficient = 1 + static_cast<int>((i - 1) % 63);
      scans[i].component_index[0] = static_cast<int>((i - 1) / 63);
      scans[i].Ss = scans[i].Se = coefficient;
    }
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  });
  CHECK(refusal(progressive) == "JPEG with over 100 scans is not supported");
}

/// A JPEG with this EXIF data.
std::string with_exif(const std::string& exif) {
  const std::string data = "Exif\0\0"s + exif;
  std::string file = golden_file("jpeg444");
  return file.insert(2, "\xff\xe1" + big_endian(static_cast<uint32_t>(data.size() + 2), 2) + data);
}

TEST_CASE("damaged EXIF data leave the image as it is", "[data]") {
  const std::string valid = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"s;
  CHECK(decode(with_exif(valid)).height == 43);
  for (size_t size = 0; size + 2 < valid.size(); ++size)
    CHECK(decode(with_exif(valid.substr(0, size))).height == 29);
  for (const auto& [at, value] : {std::pair{0, 'I'},
                                  {3, '+'},
                                  {4, '\xff'},
                                  {7, '\x7f'},
                                  {9, '\0'},
                                  {11, '\x13'},
                                  {13, '\x04'},
                                  {17, '\x02'},
                                  {18, '\x01'},
                                  {19, '\x09'},
                                  {19, '\0'}}) {
    std::string damaged = valid;
    damaged[static_cast<size_t>(at)] = value;
    INFO(at);
    CHECK(decode(with_exif(damaged)).height == 29);
  }
  std::string png = golden_file("exif6_png");
  CHECK(decode(png).height == 9);
  png[png.find("eXIf") + 4 + 4 + 2] ^= 1;  // the checksum is wrong now
  CHECK(decode(png).height == 5);
}

}  // namespace
}  // namespace flow::data
