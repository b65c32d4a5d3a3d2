// Where images have their channels last: plan to plan, without a device, and in whole jobs.
#include "runtime/cuda/program/passes.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "compiler/compile.h"
#include "ops/core/spec.h"
#include "runtime/base/file.h"
#include "runtime/cuda/loops/kernel.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"
#include "tests/support/source_files.h"

namespace flow::test {
namespace {

using plan::TensorId;
using Names = std::vector<std::string>;

plan::Job compiled(const std::string& file, const Names& sets) {
  CompileRequest request;
  request.file = test::source_path("jobs") / file;
  request.job = "train";
  request.sets = sets;
  const CompileResult result = compile_text(request, read_text(request.file));
  INFO(result.messages);
  REQUIRE(result.plan);
  return result.plan->jobs.front();
}

plan::Job moved(const plan::Job& job, const std::vector<TensorId>& delivered = {},
                const std::vector<TensorId>& transferred = {}) {
  return cuda::move_channels_last(cuda::lower_epilogues(job), delivered, transferred);
}

bool is_conversion(const plan::Step& step) {
  return step.name.ends_with(":nhwc") || step.name.ends_with(":nchw");
}

/// Of images, not of filters and their gradients.
Names conversions_of_images(const plan::Job& job) {
  Names names;
  for (const plan::Step& step : job.steps)
    if (is_conversion(step) && step.name.find("/weight") == std::string::npos)
      names.push_back(step.op.name() + " " + step.name);
  return names;
}

const plan::Step& step_named(const plan::Job& job, const std::string& name) {
  const auto found = std::ranges::find(job.steps, name, &plan::Step::name);
  REQUIRE(found != job.steps.end());
  return *found;
}

/// conv -> relu -> max_pool2d -> flatten, of x [2, 3, 8, 8], with the gradients of all of it, given
/// that of the result.
struct SmallNet {
  JobBuilder b;
  TensorId x = b.input("x", {2, 3, 8, 8}), dflat = b.input("dflat", {2, 64});
  TensorId w = b.variable("w", {4, 3, 3, 3});
  TensorId conv, relu, pool, places, flat, dpool, drelu, dconv, dw;

  SmallNet() {
    const std::vector<int64_t> ones = {1, 1}, twos = {2, 2}, pads = {1, 1, 1, 1}, none(4, 0);
    const plan::Attributes convolution = {
        {"strides", ones}, {"dilation", ones}, {"padding", pads}, {"groups", int64_t{1}}};
    plan::Attributes to_weight = convolution, to_input;
    to_weight.set("weight_shape", std::vector<int64_t>{4, 3, 3, 3});
    const plan::Attributes windows = {{"ksize", twos}, {"strides", twos}, {"padding", none}};
    to_input = windows;
    to_input.set("input_shape", std::vector<int64_t>{2, 4, 8, 8});
    conv = b.step("convolution", "conv", {x, w}, convolution, {2, 4, 8, 8});
    relu = b.step("relu", "relu", {conv}, {}, {2, 4, 8, 8}, DType::kFloat32, conv);
    pool = b.step("max_pool2d", "pool", {relu}, windows, {2, 4, 4, 4});
    places = b.second_result("pool.argmax", {2, 4, 4, 4}, DType::kUInt8);
    flat = b.step("reshape", "flat", {pool}, {{"shape", std::vector<int64_t>{2, 64}}}, {2, 64},
                  DType::kFloat32, pool);
    dpool = b.step("reshape", "dpool", {dflat}, {{"shape", std::vector<int64_t>{2, 4, 4, 4}}},
                   {2, 4, 4, 4}, DType::kFloat32, dflat);
    drelu = b.step("max_pool2d_grad", "drelu", {dpool, places}, to_input, {2, 4, 8, 8});
    dconv = b.step("relu_grad", "dconv", {drelu, relu}, {}, {2, 4, 8, 8}, DType::kFloat32, drelu);
    dw = b.step("convolution_grad_weight", "w/weight", {x, dconv}, to_weight, {4, 3, 3, 3});
    b.step("reduce_sum", "sum", {dw},
           {{"axes", std::vector<int64_t>{0, 1, 2, 3}}, {"keepdims", false}}, {});
  }
  plan::Job job(const std::string& precision) {
    plan::Job made = b.build();
    made.precision = precision;
    return made;
  }
};

}  // namespace

TEST_CASE("a region of a TF32 job is converted at its edges", "[cuda]") {
  SmallNet net;
  const plan::Job job = moved(net.job("tf32"));
  CHECK(conversions_of_images(job) == Names{"transpose x:nhwc", "transpose w:nhwc",
                                            "transpose pool:nhwc:nchw", "transpose dpool:nhwc"});
  const plan::Step& conv = step_named(job, "conv");
  CHECK(cuda::has_channels_last(conv));
  CHECK(job[conv.inputs[0]].shape == Shape{2, 8, 8, 3});
  CHECK(job[conv.inputs[1]].shape == Shape{4, 3, 3, 3});
  CHECK(job[conv.outputs[0]].shape == Shape{2, 8, 8, 4});
  CHECK(step_named(job, "relu").inputs == conv.outputs);
  CHECK(job[step_named(job, "relu").outputs[0]].alias == conv.outputs[0]);
  CHECK(step_named(job, "flat").inputs == std::vector{net.pool});
  CHECK_FALSE(job[net.pool].alias.valid());
  CHECK(step_named(job, "sum").inputs == std::vector{net.dw});
  CHECK(job[step_named(job, "pool").outputs[1]].shape == Shape{2, 4, 4, 4});
  for (const plan::Tensor& tensor : job.tensors) CHECK(is_low_precision(tensor.dtype) == false);
}

TEST_CASE("convolutions of float32 and float64 stay as they are", "[cuda]") {
  for (const char* precision : {"float32", "float64"}) {
    const plan::Job before = cuda::lower_epilogues(SmallNet().job(precision));
    const plan::Job after = cuda::move_channels_last(before, {}, {});
    CHECK(step_names(after) == step_names(before));
    CHECK(after.tensors.size() == before.tensors.size());
  }
}

TEST_CASE("what is delivered is converted in calls that deliver it", "[cuda]") {
  SmallNet net;
  const auto probes = [](plan::Job job) {
    std::erase_if(job.steps, [](const plan::Step& step) { return !step.probe; });
    return job;
  };
  const plan::Job job = net.job("tf32");
  const plan::Job watched = moved(job, {net.relu, net.pool, net.dw});
  REQUIRE(probes(watched).steps.size() == 3);
  CHECK(probes(watched).steps[0].outputs == std::vector{net.relu});
  CHECK(probes(watched).steps[1].outputs == std::vector{net.pool});
  CHECK(probes(watched).steps[2].outputs == std::vector{net.dw});
  CHECK(probes(moved(job)).steps.empty());
  // The other steps are the same; what they read of a delivered tensor lies elsewhere.
  plan::Job others = watched;
  std::erase_if(others.steps, [](const plan::Step& step) { return step.probe; });
  CHECK(step_names(others) == step_names(moved(job)));
  CHECK(step_named(others, "flat").inputs != std::vector{net.pool});
}

TEST_CASE("what another device reads is converted in every call", "[cuda]") {
  SmallNet net;
  const plan::Job job = moved(net.job("tf32"), {}, {net.relu});
  const plan::Step& conversion = step_named(job, "relu:nhwc:nchw");
  CHECK_FALSE(conversion.probe);
  CHECK(conversion.outputs == std::vector{net.relu});
}

TEST_CASE("no layout changes between the convolutions of ResNet-50's blocks", "[cuda]") {
  const std::string precision = GENERATE("mixed_bfloat16", "mixed_float16", "tf32");
  CAPTURE(precision);
  const plan::Job job = moved(compiled("resnet50.yaml", {"vars.precision=" + precision}));
  const bool mixed = precision != "tf32";
  // The gradient of the mean over the last images, which is one for all pixels, is the other edge.
  const Names conversions = conversions_of_images(job);
  CHECK(conversions.size() == 2);
  CHECK(conversions[0] ==
        (mixed ? "transpose images:" + precision.substr(6) + ":nhwc" : "transpose images:nhwc"));
  int64_t convolutions = 0, filters = 0;
  for (const plan::Step& step : job.steps) {
    CAPTURE(step.name, step.op.name());
    convolutions += step.op->convolves();
    CHECK((!step.op->convolves() || cuda::has_channels_last(step)));
    filters += is_conversion(step) && step.name.find("/weight") != std::string::npos;
    if (is_conversion(step) || !mixed) continue;
    // Nothing but what goes in, parameters and their gradients has four axes and 32 bits.
    for (const TensorId id : step.outputs)
      if (id.valid() && job[id].shape.rank() == 4 && job[id].dtype == DType::kFloat32)
        CHECK((step.name.find("/weight") != std::string::npos || step.op == "reshape" ||
               step.op == "broadcast_to"));
  }
  CHECK(convolutions == 53 * 3 - 1);  // the images have no gradient
  CHECK(filters == 53 * 2);           // each is converted once, and so is its gradient
}

}  // namespace flow::test
