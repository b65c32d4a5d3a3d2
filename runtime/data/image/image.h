// Images in memory. They are planar, so that an image is a row of a dataset without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flow::data {

/// The height and width of an image in pixels.
struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// An image: (channels, height, width) samples of 8 or 16 bits, the latter in the byte order of
/// this machine. Functions that fill an image reuse its memory.
struct Image {
  int64_t channels = 0, height = 0, width = 0;
  int bits = 8;
  std::vector<std::byte> data;

  ImageSize size() const { return {height, width}; }
  size_t plane_samples() const { return static_cast<size_t>(height * width); }

  /// Sets the shape and resizes `data`; the values of the samples are unspecified.
  /// REQUIRES: no extent is negative, and `bits` is 8 or 16.
  void reshape(int64_t new_channels, int64_t new_height, int64_t new_width, int new_bits);

  /// Returns all samples. REQUIRES: Sample is uint8_t for 8 bits and uint16_t for 16 bits.
  template <typename Sample>
  std::span<Sample> samples() {
    return {reinterpret_cast<Sample*>(data.data()), data.size() / sizeof(Sample)};
  }
  template <typename Sample>
  std::span<const Sample> samples() const {
    return {reinterpret_cast<const Sample*>(data.data()), data.size() / sizeof(Sample)};
  }

  /// Returns the samples of a channel. REQUIRES: as for samples().
  template <typename Sample>
  std::span<Sample> plane(int64_t channel) {
    return samples<Sample>().subspan(static_cast<size_t>(channel) * plane_samples(),
                                     plane_samples());
  }
  template <typename Sample>
  std::span<const Sample> plane(int64_t channel) const {
    return samples<Sample>().subspan(static_cast<size_t>(channel) * plane_samples(),
                                     plane_samples());
  }
};

}  // namespace flow::data
