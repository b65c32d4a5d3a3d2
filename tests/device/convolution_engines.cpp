// Prints, for each device of the folder given and many convolutions, the engines that are chosen:
// device | convolution | engine in float32 | engine with TF32 allowed
#include <fmt/format.h>

#include "runtime/cuda/libraries/cudnn.h"
#include "tests/device/convolution_specs.h"

int main(int, char** arguments) {
  constexpr int kCount = 60;
  for (const auto& device : flow::test::read_descriptions(arguments[1])) {
    flow::cuda::Cudnn cudnn(device.json);
    for (flow::cuda::ConvolutionSpec spec : flow::test::random_convolutions(2, kCount)) {
      const std::string plain = cudnn.find(spec).value().name;
      spec.math_mode.tf32 = true;
      fmt::print("{} | {} | {} | {}\n", device.name, flow::test::text_of(spec), plain,
                 cudnn.find(spec).value().name);
    }
  }
}
