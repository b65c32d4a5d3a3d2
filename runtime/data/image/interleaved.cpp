// Copies rows between interleaved and planar order.
#include "runtime/data/image/interleaved.h"

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"

namespace flow::data {
namespace {

/// Splits a row of `width` pixels into planes that are `plane` samples apart.
template <int kChannels, typename Sample>
[[gnu::always_inline]] inline void split(const Sample* row, size_t width, size_t plane,
                                         Sample* to) {
  for (size_t x = 0; x < width; ++x)
    for (size_t c = 0; c < kChannels; ++c) to[c * plane + x] = row[x * kChannels + c];
}

/// Splits a row of 8-bit RGB. It is compiled for several targets, because color JPEGs use it.
FLOW_VECTORIZED void split_rgb(const uint8_t* row, size_t width, uint8_t* red, uint8_t* green,
                               uint8_t* blue) {
  for (size_t x = 0; x < width; ++x) {
    red[x] = row[3 * x];
    green[x] = row[3 * x + 1];
    blue[x] = row[3 * x + 2];
  }
}

template <typename Sample>
void split_samples(const Sample* row, int64_t y, Image& out) {
  const auto width = static_cast<size_t>(out.width);
  const size_t plane = out.plane_samples();
  Sample* to = out.samples<Sample>().data() + static_cast<size_t>(y) * width;
  switch (out.channels) {
    case 1:
      std::memcpy(to, row, width * sizeof(Sample));
      break;
    case 2:
      split<2>(row, width, plane, to);
      break;
    case 3:
      if constexpr (sizeof(Sample) == 1)
        split_rgb(row, width, to, to + plane, to + 2 * plane);
      else
        split<3>(row, width, plane, to);
      break;
    default:
      split<4>(row, width, plane, to);
  }
}

template <typename Sample>
void join_samples(const Image& image, int64_t y, Sample* row) {
  const auto channels = static_cast<size_t>(image.channels);
  const auto width = static_cast<size_t>(image.width);
  for (size_t c = 0; c < channels; ++c) {
    const Sample* from =
        image.plane<Sample>(static_cast<int64_t>(c)).data() + static_cast<size_t>(y) * width;
    for (size_t x = 0; x < width; ++x) row[x * channels + c] = from[x];
  }
}

}  // namespace

void split_row(const std::byte* row, int64_t y, Image& out) {
  FLOW_CHECK(out.channels >= 1 && out.channels <= 4);
  if (out.bits == 8)
    split_samples(reinterpret_cast<const uint8_t*>(row), y, out);
  else
    split_samples(reinterpret_cast<const uint16_t*>(row), y, out);
}

void join_row(const Image& image, int64_t y, std::byte* row) {
  if (image.bits == 8)
    join_samples(image, y, reinterpret_cast<uint8_t*>(row));
  else
    join_samples(image, y, reinterpret_cast<uint16_t*>(row));
}

}  // namespace flow::data
