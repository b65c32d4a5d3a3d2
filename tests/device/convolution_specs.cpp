// Random convolutions, and the devices that they are planned for.
#include "tests/device/convolution_specs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include "runtime/plan/json/json.h"

namespace flow::test {
namespace {

using cuda::ConvolutionSpec;
using Pass = ConvolutionSpec::Pass;

class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}
  /// In [low, high].
  int64_t roll(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(generator_() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 generator_;
};

ConvolutionSpec random_convolution(Dice& dice) {
  ConvolutionSpec spec{static_cast<Pass>(dice.roll(0, 2)), DType::kFloat32, {}, {}, {}, {}, {}, {}};
  spec.groups = dice.roll(0, 2) == 0 ? dice.roll(2, 4) : 1;
  const int64_t images = dice.roll(1, 32), channels = dice.roll(1, 24), filters = dice.roll(1, 24);
  spec.x = {images, spec.groups * channels, 0, 0};
  spec.w = {spec.groups * filters, channels, 0, 0};
  spec.y = {images, spec.groups * filters, 0, 0};
  spec.pads.resize(4);
  for (int axis = 0; axis < 2; ++axis) {
    const size_t i = static_cast<size_t>(axis);
    const int64_t kernel = dice.roll(1, 5), stride = dice.roll(1, 3), dilation = dice.roll(1, 2);
    const int64_t reach = (kernel - 1) * dilation + 1;
    const int64_t before = dice.roll(0, reach - 1), after = dice.roll(0, reach - 1);
    const int64_t input = std::max<int64_t>(1, reach - before - after) + dice.roll(0, 24);
    spec.strides.push_back(stride);
    spec.dilation.push_back(dilation);
    spec.pads[i] = before, spec.pads[i + 2] = after;
    spec.x[axis + 2] = input, spec.w[axis + 2] = kernel;
    spec.y[axis + 2] = (input + before + after - reach) / stride + 1;
  }
  if (spec.pass == Pass::kForward) {  // relu alone is a kernel of its own
    spec.epilogue.bias = dice.roll(0, 3) > 0;
    spec.epilogue.relu = spec.epilogue.bias && dice.roll(0, 1) == 1;
  }
  return spec;
}

}  // namespace

std::vector<NamedDescription> read_descriptions(const std::filesystem::path& folder) {
  std::vector<NamedDescription> descriptions;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const std::string json(std::istreambuf_iterator<char>(file), {});
    descriptions.push_back(
        {entry.path().stem().string(), json, Json::parse(json).at("totalGlobalMem").get<size_t>()});
  }
  std::sort(descriptions.begin(), descriptions.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return descriptions;
}

std::vector<ConvolutionSpec> random_convolutions(uint64_t seed, int count) {
  Dice dice(seed);
  std::vector<ConvolutionSpec> specs;
  for (int i = 0; i < count; ++i) specs.push_back(random_convolution(dice));
  return specs;
}

std::string text_of(const ConvolutionSpec& spec) {
  constexpr std::string_view kPasses[] = {"forward", "grad data", "grad weight"};
  return fmt::format("{} {} {} {} strides {} dilation {} pads {} groups {}{}{}{}",
                     kPasses[static_cast<size_t>(spec.pass)], spec.x.str(), spec.w.str(),
                     spec.y.str(), spec.strides, spec.dilation, spec.pads, spec.groups,
                     spec.epilogue.bias ? " bias" : "", spec.epilogue.relu ? " relu" : "",
                     spec.channels_last ? " channels last" : "");
}

}  // namespace flow::test
