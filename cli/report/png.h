// Small pictures as PNG in a data URI.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace flow::cli::report {

/// "data:image/png;base64,..." of rows from the top, `channels` bytes a pixel: 1 (gray) or 3 (red,
/// green, blue). REQUIRES: pixels.size() == width * height * channels, none of them 0.
std::string png_uri(std::span<const uint8_t> pixels, size_t width, size_t height, size_t channels);

}  // namespace flow::cli::report
