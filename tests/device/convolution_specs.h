// Convolutions to plan.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/cuda/libraries/libraries.h"

namespace flow::test {

struct NamedDescription {
  std::string name, json;  // "h100", cuDNN's properties of the device
  size_t memory = 0;       // bytes
};

/// What lies in a folder like tests/device/targets.
std::vector<NamedDescription> read_descriptions(const std::filesystem::path& folder);

/// Random convolutions of all passes, each with groups, strides, dilation and pads that may differ
/// on all four sides; forward ones with and without bias and relu.
std::vector<cuda::ConvolutionSpec> random_convolutions(uint64_t seed, int count);

/// "forward [8, 4, 9, 9] [6, 2, 3, 3] ..." on a line without its end.
std::string text_of(const cuda::ConvolutionSpec& spec);

}  // namespace flow::test
