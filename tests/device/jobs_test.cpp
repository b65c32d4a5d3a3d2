// The convolutions of jobs/, as they are compiled, have plans on every device.
#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <map>

#include "compiler/compile.h"
#include "runtime/base/file.h"
#include "runtime/cuda/libraries/cudnn.h"
#include "tests/device/convolution_specs.h"
#include "tests/support/source_files.h"

namespace flow::test {
namespace {

using cuda::ConvolutionSpec;
using Pass = ConvolutionSpec::Pass;

/// The step as cuDNN is told of it, or nothing where it is no convolution.
std::optional<ConvolutionSpec> spec_of(const plan::Job& job, const plan::Step& step) {
  constexpr std::string_view kOps[] = {"convolution", "convolution_grad_data",
                                       "convolution_grad_weight"};
  const auto op = std::ranges::find(kOps, step.op.name());
  if (op == std::end(kOps)) return std::nullopt;
  const auto list = [&](std::string_view name) {
    return step.attributes.get<std::vector<int64_t>>(name);
  };
  const Shape first = job[step.inputs[0]].shape, second = job[step.inputs[1]].shape;
  const Shape result = job[step.outputs[0]].shape;
  const auto pass = static_cast<Pass>(op - kOps);
  ConvolutionSpec spec{pass, DType::kFloat32, first, second, result, {}, {}, {}};
  if (pass == Pass::kGradData) spec.x = result, spec.y = first;
  if (pass == Pass::kGradWeight) spec.w = result, spec.y = second;
  spec.strides = list("strides"), spec.dilation = list("dilation");
  const std::vector<int64_t> pads = list("padding");
  spec.pads = {pads[0], pads[2], pads[1], pads[3]};
  spec.groups = step.attributes.get<int64_t>("groups");
  for (const plan::EpilogueOp& fused : step.epilogue) {
    spec.epilogue.bias |= fused.op == "bias_add";
    spec.epilogue.relu |= fused.op == "relu";
  }
  return spec;
}

plan::Plan compiled(const std::filesystem::path& file) {
  CompileRequest request;
  request.file = file.string();
  const CompileResult result = compile_text(request, read_text(request.file));
  INFO(file << ": " << result.messages);
  REQUIRE(result.plan);
  return *result.plan;
}

/// Of all jobs of the repository, each once.
std::vector<ConvolutionSpec> convolutions_of_jobs() {
  std::map<std::string, ConvolutionSpec> specs;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("jobs")))
    if (entry.path().extension() == ".yaml")
      for (const plan::Job& job : compiled(entry.path()).jobs)
        for (const plan::Step& step : job.steps)
          if (const auto spec = spec_of(job, step)) specs.emplace(text_of(*spec), *spec);
  std::vector<ConvolutionSpec> each;
  for (const auto& [text, spec] : specs) each.push_back(spec);
  return each;
}

TEST_CASE("Every convolution of a job is planned whole, in every precision, on every device") {
  const std::vector<ConvolutionSpec> specs = convolutions_of_jobs();
  const auto fused = [](const ConvolutionSpec& spec) {
    return spec.epilogue.bias && spec.epilogue.relu;
  };
  REQUIRE(std::ranges::count_if(specs, fused) >= 2);
  for (const Pass pass : {Pass::kForward, Pass::kGradData, Pass::kGradWeight})
    REQUIRE(std::ranges::count(specs, pass, &ConvolutionSpec::pass) >= 10);
  for (const auto& device : read_descriptions(test::source_path("tests/device/targets"))) {
    cuda::Cudnn cudnn(device.json);
    for (ConvolutionSpec spec : specs) {
      for (const DType dtype :
           {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
        for (const bool tf32 : {false, true}) {
          if (tf32 && dtype != DType::kFloat32) continue;
          spec.dtype = dtype, spec.math_mode.tf32 = tf32;
          spec.channels_last = tf32 || is_low_precision(dtype);
          INFO(device.name << " " << name_of(dtype) << " " << text_of(spec));
          CHECK(cudnn.find(spec));
        }
      }
    }
  }
}

bool uses_tensor_cores(const cuda::LibraryKernel& kernel) {
  return kernel.name.ends_with(", tensor cores");
}

/// Neither the workspace that the backend allows (see choose_kernels in backend.cpp) nor the order
/// of sums takes tensor cores away. cuDNN prefers other engines for few channels, and on an RTX
/// 5090 for some more. Where channels lie last it transposes nothing, which its workspaces show.
TEST_CASE("16-bit and TF32 convolutions of jobs, with channels last, use tensor cores") {
  const std::vector<ConvolutionSpec> specs = convolutions_of_jobs();
  REQUIRE(std::ranges::count_if(specs, [](const auto& spec) { return spec.x[0] == 256; }) >= 50);
  for (const auto& device : read_descriptions(test::source_path("tests/device/targets"))) {
    cuda::Cudnn cudnn(device.json);
    int with = 0, without = 0;
    size_t workspaces = 0, planar_workspaces = 0;
    for (ConvolutionSpec spec : specs) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
        spec.dtype = dtype, spec.math_mode = {.tf32 = dtype == DType::kFloat32};
        spec.channels_last = true;
        INFO(device.name << " " << name_of(dtype) << " " << text_of(spec));
        const cuda::LibraryKernel best = cudnn.find(spec).value();
        ConvolutionSpec limited = spec, free = spec, planar = spec;
        limited.most_workspace = device.memory / 4;
        CHECK(cudnn.find(limited).value().name == best.name);
        free.math_mode.any_order = true;
        if (!uses_tensor_cores(best)) CHECK_FALSE(uses_tensor_cores(cudnn.find(free).value()));
        if (device.name != "rtx5090" && spec.x[0] == 256) CHECK(uses_tensor_cores(best));
        (uses_tensor_cores(best) ? with : without) += 1;
        planar.channels_last = false;
        workspaces += best.workspace, planar_workspaces += cudnn.find(planar).value().workspace;
      }
    }
    INFO(device.name);
    CHECK(with > 12 * without);
    CHECK(workspaces < planar_workspaces / 2);
  }
}

}  // namespace
}  // namespace flow::test
