// Images and samples that tests compare.
#include "tests/support/image_cases.h"

#include <algorithm>
#include <cstring>

#include "tests/support/golden_arrays.h"

namespace flow::test {

const std::map<std::string, Array>& image_golden() {
  static const std::map<std::string, Array> arrays = golden_arrays("data/images");
  return arrays;
}

std::vector<int> samples_of(const data::Image& image) {
  if (image.bits == 16) {
    const auto samples = image.samples<uint16_t>();
    return {samples.begin(), samples.end()};
  }
  const auto samples = image.samples<uint8_t>();
  return {samples.begin(), samples.end()};
}

std::vector<int> samples_of(const Array& array) {
  std::vector<int> samples;
  if (array.dtype() == DType::kInt32) {
    samples.resize(array.bytes().size() / sizeof(int));
    std::memcpy(samples.data(), array.bytes().data(), array.bytes().size());
  } else {
    for (const std::byte byte : array.bytes()) samples.push_back(std::to_integer<int>(byte));
  }
  return samples;
}

data::Image image_from_array(const Array& array) {
  data::Image image;
  image.reshape(array.shape()[0], array.shape()[1], array.shape()[2], 8);
  std::ranges::copy(array.bytes(), image.data.begin());
  return image;
}

}  // namespace flow::test
