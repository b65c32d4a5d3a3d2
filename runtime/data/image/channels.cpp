// Converts the channels of planar images in place.
#include "runtime/data/image/channels.h"

#include <algorithm>

#include "runtime/base/host_device.h"

namespace flow::data {
namespace {

bool has_alpha(const Image& image) { return image.channels % 2 == 0; }

/// Adds or removes planes at the end. The planes that remain keep their samples.
void set_channels(Image& image, int64_t channels) {
  image.reshape(channels, image.height, image.width, image.bits);
}

/// Multiplies 8-bit samples by 257, which maps 255 to 65535. Works in place from the end, so that
/// each result overwrites only samples that have been read.
void widen(Image& image) {
  const size_t count = image.data.size();
  image.reshape(image.channels, image.height, image.width, 16);
  const auto narrow = image.samples<uint8_t>();
  const auto wide = image.samples<uint16_t>();
  for (size_t i = count; i-- > 0;) wide[i] = static_cast<uint16_t>(narrow[i] * 257);
}

template <typename Sample>
constexpr uint32_t kMax = static_cast<Sample>(-1);

template <typename Sample>
void repeat_gray(Image& image) {
  set_channels(image, image.channels + 2);
  if (has_alpha(image)) std::ranges::copy(image.plane<Sample>(1), image.plane<Sample>(3).begin());
  for (const int64_t c : {1, 2})
    std::ranges::copy(image.plane<Sample>(0), image.plane<Sample>(c).begin());
}

template <typename Sample>
void blend(std::span<Sample> color, std::span<const Sample> alpha, uint32_t background) {
  for (size_t i = 0; i < color.size(); ++i)
    color[i] = static_cast<Sample>((color[i] * uint32_t{alpha[i]} +
                                    background * (kMax<Sample> - alpha[i]) + kMax<Sample> / 2) /
                                   kMax<Sample>);
}

template <typename Sample>
void blend_planes(const std::array<uint8_t, 3>& background, Image& image) {
  for (size_t c = 0; c < background.size(); ++c)
    blend<Sample>(image.plane<Sample>(static_cast<int64_t>(c)), image.plane<Sample>(3),
                  background[c] * (kMax<Sample> / 255));
  set_channels(image, 3);
}

/// Computes ITU-R BT.601 luma in fixed point, as Pillow does.
template <typename Sample>
void to_gray(Image& image) {
  const auto red = image.plane<Sample>(0);
  const auto green = image.plane<Sample>(1);
  const auto blue = image.plane<Sample>(2);
  for (size_t i = 0; i < red.size(); ++i)
    red[i] =
        static_cast<Sample>((19595u * red[i] + 38470u * green[i] + 7471u * blue[i] + 32768u) >> 16);
  set_channels(image, 1);
}

template <typename Sample>
void convert(const DecodeOptions& options, Image& image) {
  const bool blends = options.background && has_alpha(image);
  if (image.channels <= 2 && (blends || options.channels != Channels::kGray))
    repeat_gray<Sample>(image);
  if (blends) blend_planes<Sample>(*options.background, image);
  if (has_alpha(image) && options.channels != Channels::kRgba)
    set_channels(image, image.channels - 1);
  if (image.channels == 3 && options.channels == Channels::kGray) to_gray<Sample>(image);
  if (image.channels == 3 && options.channels == Channels::kRgba) {
    set_channels(image, 4);
    std::ranges::fill(image.plane<Sample>(3), static_cast<Sample>(-1));
  }
}

}  // namespace

void convert_channels(const DecodeOptions& options, Image& image) {
  if (options.bits > image.bits) widen(image);
  if (image.bits == 8)
    convert<uint8_t>(options, image);
  else
    convert<uint16_t>(options, image);
}

}  // namespace flow::data
