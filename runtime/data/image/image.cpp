// The shape of images in memory.
#include "runtime/data/image/image.h"

namespace flow::data {

void Image::reshape(int64_t new_channels, int64_t new_height, int64_t new_width, int new_bits) {
  channels = new_channels;
  height = new_height;
  width = new_width;
  bits = new_bits;
  data.resize(static_cast<size_t>(channels) * plane_samples() * static_cast<size_t>(bits / 8));
}

}  // namespace flow::data
