// What the fuzz targets of images have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/error.h"
#include "runtime/data/image/decode.h"
#include "runtime/data/image/encode.h"
#include "runtime/data/image/fit.h"

namespace flow::test {

/// Decodes the bytes with every kind of channels, fits the image and encodes it. The last byte
/// selects the options.
inline void fuzz_image(std::span<const std::byte> bytes) {
  using namespace data;
  constexpr Channels kChannels[] = {Channels::kRgb, Channels::kGray, Channels::kRgba,
                                    Channels::kRgb};
  if (bytes.empty()) return;
  const auto choice = std::to_integer<unsigned>(bytes.back());
  DecodeOptions options{.channels = kChannels[choice % 4],
                        .bits = choice & 4 ? 16 : 8,
                        .apply_orientation = (choice & 8) == 0,
                        .max_pixels = 1 << 18};
  if (choice & 16) options.background = {{1, 2, 3}};
  Image image, fitted;
  decode_image(bytes, options, image);
  const ImageHeader header = read_image_header(bytes, options);
  FLOW_CHECK(header.size == image.size() &&
             image.channels == static_cast<int64_t>(options.channels));
  const Fit fit{.mode = static_cast<FitMode>(choice >> 5 & 3),
                .size = {24, 17},
                .filter = static_cast<Filter>(choice % 3),
                .max_pixels = 1 << 20};
  fit_image(image, fit, fitted);
  FLOW_CHECK(fitted.size() == fitted_size(image.size(), fit));
  Image again;
  decode_image(encode_png(image),
               {.channels = options.channels, .bits = options.bits, .max_pixels = 1 << 18}, again);
  FLOW_CHECK(again.data == image.data);
}

}  // namespace flow::test
