// Images and samples that tests compare.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/data/image/image.h"

namespace flow::test {

/// The arrays of tests/golden/data/images.npz.
const std::map<std::string, Array>& image_golden();

/// The samples of an image or of a golden array as numbers.
std::vector<int> samples_of(const data::Image& image);
std::vector<int> samples_of(const Array& array);

/// An image with the samples of a golden (C, H, W) array of uint8.
data::Image image_from_array(const Array& array);

}  // namespace flow::test
