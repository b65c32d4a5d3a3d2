// PNG (www.w3.org/TR/png) with zlib's compression and checksums.
#include "cli/report/png.h"

#include <zlib.h>

#include <string_view>
#include <vector>

#include "runtime/base/check.h"

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

}  // namespace

std::string png_uri(std::span<const uint8_t> pixels, size_t width, size_t height, size_t channels) {
  FLOW_CHECK(pixels.size() == width * height * channels && !pixels.empty(), "{} pixels",
             pixels.size());
  std::string header;
  append_big_endian(header, static_cast<uint32_t>(width));
  append_big_endian(header, static_cast<uint32_t>(height));
  constexpr char kGray = 0, kColor = 2;
  for (const char byte : {char{8}, channels == 3 ? kColor : kGray, char{0}, char{0}, char{0}})
    header += byte;  // bits a channel, kind, compression, filter, interlacing
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

}  // namespace flow::cli::report
