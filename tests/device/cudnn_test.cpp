// cuDNN makes plans for devices that are not here.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/cuda/cudnn.h"
#include "tests/device/convolution_specs.h"

namespace flow::test {
namespace {

using cuda::ConvolutionSpec;
using cuda::Cudnn;
using Pass = ConvolutionSpec::Pass;

std::vector<NamedDescription> targets() {
  return read_descriptions(FLOW_SOURCE_DIR "/tests/device/targets");
}

TEST_CASE("cuDNN plans every convolution in every type on every device") {
  const auto devices = targets();
  REQUIRE(devices.size() >= 4);
  for (const NamedDescription& device : devices) {
    Cudnn cudnn(device.json);
    for (ConvolutionSpec spec : random_convolutions(1, 60)) {
      for (const DType dtype :
           {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
        spec.dtype = dtype;
        INFO(device.name << " " << name_of(dtype) << " " << text_of(spec));
        CHECK_NOTHROW(cudnn.prepare(spec));
      }
    }
  }
}

TEST_CASE("The same convolution gets the same plan again") {
  const std::string json = targets()[0].json;
  Cudnn one(json), other(json);
  for (const ConvolutionSpec& spec : random_convolutions(3, 10))
    CHECK(one.engine(spec) == other.engine(spec));
}

TEST_CASE("A convolution that cuDNN refuses is an error that names it") {
  Cudnn cudnn(targets()[0].json);
  ConvolutionSpec spec = random_convolutions(4, 1)[0];
  spec.y[3] += 1;  // does not follow from x, w and the pads
  CHECK_THROWS_AS(cudnn.prepare(spec), RunError);
  CHECK_THROWS_WITH(cudnn.prepare(spec),
                    Catch::Contains(spec.y.str()) && Catch::Contains("float32"));
}

TEST_CASE("What describes no device is an error") {
  CHECK_THROWS_AS(Cudnn("{\"deviceVer\":900}"), RunError);
}

}  // namespace
}  // namespace flow::test
