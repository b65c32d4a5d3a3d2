// cuDNN makes plans for devices that are not here.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <span>

#include "runtime/base/error.h"
#include "runtime/cuda/libraries/cudnn.h"
#include "tests/device/convolution_specs.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/source_files.h"

namespace flow::test {
namespace {

using cuda::ConvolutionSpec;
using cuda::Cudnn;
using Pass = ConvolutionSpec::Pass;

std::vector<NamedDescription> targets() {
  return read_descriptions(test::source_path("tests/device/targets"));
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
        for (const bool channels_last : {false, true}) {
          spec.channels_last = channels_last;
          INFO(device.name << " " << name_of(dtype) << " " << text_of(spec));
          CHECK(cudnn.find(spec));
        }
      }
    }
  }
}

TEST_CASE("The same convolution gets the same plan again") {
  const std::string json = targets()[0].json;
  Cudnn one(json), other(json);
  for (const ConvolutionSpec& spec : random_convolutions(3, 10))
    CHECK(one.find(spec).value().name == other.find(spec).value().name);
}

TEST_CASE("A plan that is kept is taken again for the same device and convolution alone") {
  const auto devices = targets();
  auto specs = random_convolutions(5, 6);
  FreshDirectory home;
  const auto prepare_all = [&](const std::string& device) {
    Cudnn cudnn(device, cuda::PlanCache(home.path()));
    std::vector<size_t> workspaces;
    for (const ConvolutionSpec& spec : specs)
      workspaces.push_back(cudnn.find(spec).value().workspace);
    return workspaces;
  };
  const auto kept = [&] {  // a plan that is kept anew is another file
    std::map<fs::path, fs::file_time_type> files;
    for (const auto& entry : fs::directory_iterator(home.path()))
      files[entry.path()] = entry.last_write_time();
    return files;
  };
  const auto workspaces = prepare_all(devices[0].json);
  const auto files = kept();
  CHECK(files.size() == specs.size());
  CHECK(prepare_all(devices[0].json) == workspaces);
  CHECK(kept() == files);
  prepare_all(devices[1].json);
  CHECK(kept().size() == 2 * specs.size());
  for (ConvolutionSpec& spec : specs) spec.math_mode.any_order = true;
  prepare_all(devices[0].json);
  CHECK(kept().size() == 3 * specs.size());
  for (ConvolutionSpec& spec : specs) spec.channels_last = true;
  prepare_all(devices[0].json);
  CHECK(kept().size() == 4 * specs.size());
}

TEST_CASE("A plan stays in the workspace that it may have, and says so") {
  const std::string device = targets()[0].json;
  // The second convolution of ResNet-50 that has four times the filters, in a batch of 256.
  const ConvolutionSpec spec{Pass::kForward,  DType::kBFloat16,   {256, 64, 56, 56},
                             {256, 64, 1, 1}, {256, 256, 56, 56}, {1, 1},
                             {1, 1},          {0, 0, 0, 0}};
  FreshDirectory home;
  const auto find = [&](size_t most) {
    ConvolutionSpec limited = spec;
    limited.most_workspace = most;
    return Cudnn(device, cuda::PlanCache(home.path())).find(limited).value();
  };
  const cuda::LibraryKernel best = find(size_t{1} << 40);
  CHECK_THAT(best.name, Catch::StartsWith("cuDNN eng") && Catch::EndsWith(", tensor cores"));
  CHECK(best.workspace > 300 << 20);
  CHECK(find(best.workspace).name == best.name);
  const cuda::LibraryKernel limited = find(best.workspace - 1);
  CHECK(limited.workspace < best.workspace);
  CHECK_THAT(limited.name, Catch::EndsWith(", limited workspace"));
  // Kept plans have the same names.
  CHECK(find(best.workspace).name == best.name);
  CHECK(find(best.workspace - 1).name == limited.name);
}

TEST_CASE("A plan that cuDNN does not understand is chosen anew") {
  const std::string device = targets()[0].json;
  const auto spec = random_convolutions(5, 1)[0];
  FreshDirectory home;
  const cuda::PlanCache cache(home.path());
  REQUIRE(Cudnn(device, cache).find(spec));
  const fs::path path = fs::directory_iterator(home.path())->path();
  const std::string text = read_text(path);
  const std::string key = text.substr(16, text.find('\0', 16) - 16);
  REQUIRE(cache.find(key));
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, cache.find(key)->size() / 2}) {
    std::vector<uint8_t> part = *cache.find(key);
    part.resize(size);
    cache.store(key, part);
    CHECK(Cudnn(device, cache).find(spec));
    CHECK(read_text(path) == text);
  }
}

TEST_CASE("A convolution that cuDNN refuses is an error that names it") {
  Cudnn cudnn(targets()[0].json);
  ConvolutionSpec spec = random_convolutions(4, 1)[0];
  spec.y[3] += 1;  // does not follow from x, w and the pads
  const auto kernel = cudnn.find(spec);
  REQUIRE_FALSE(kernel);
  CHECK_THAT(kernel.error().what(), Catch::Contains(spec.y.str()) && Catch::Contains("float32"));
}

TEST_CASE("Candidates begin with the plan that is found, and come back from what is kept of them") {
  Cudnn cudnn(targets()[0].json);
  size_t several = 0;
  for (const ConvolutionSpec& spec : random_convolutions(6, 8)) {
    const cuda::LibraryKernel best = cudnn.find(spec).value();
    const std::vector<cuda::LibraryKernel> candidates = cudnn.candidates(spec, 4);
    INFO(text_of(spec));
    REQUIRE(!candidates.empty());
    CHECK(candidates.size() <= 4);
    if (candidates.size() > 1) ++several;
    CHECK(candidates[0].name == best.name);
    for (const cuda::LibraryKernel& candidate : candidates) {
      const auto restored = cudnn.restore(spec, candidate.plan);
      REQUIRE(restored);
      CHECK(restored->name == candidate.name);
      CHECK(restored->workspace == candidate.workspace);
      CHECK(std::ranges::count(candidates, candidate.name, &cuda::LibraryKernel::name) == 1);
    }
    CHECK_FALSE(cudnn.restore(spec, std::span(candidates[0].plan).first(10)));
  }
  CHECK(several >= 4);
}

TEST_CASE("Attention that cuDNN does not support is refused, with the reason") {
  Cudnn cudnn(targets()[0].json);
  cuda::AttentionSpec spec{cuda::AttentionSpec::Pass::kForward,
                           DType::kBFloat16,
                           {2, 3, 64, 12},
                           {2, 3, 64, 12},
                           {2, 3, 64, 12}};
  for (const auto pass : {cuda::AttentionSpec::Pass::kForward, cuda::AttentionSpec::Pass::kGrad}) {
    spec.pass = pass;
    const auto kernel = cudnn.find(spec);
    REQUIRE_FALSE(kernel);
    CHECK_THAT(kernel.error().what(),
               Catch::StartsWith("cuDNN ") && Catch::Contains("multiple of 8"));
  }
}

TEST_CASE("What describes no device is an error") {
  CHECK_THROWS_AS(Cudnn("{\"deviceVer\":900}"), RunError);
}

}  // namespace
}  // namespace flow::test
