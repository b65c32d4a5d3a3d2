// Which tensors lie channels-last, and the reorder.
#include "runtime/cpu/backend/layout.h"

#include <catch2/catch.hpp>

#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

using namespace flow;
using test::JobBuilder;
using Ints = std::vector<int64_t>;

namespace {

std::vector<cpu::Layout> layouts_of(const plan::Job& job) {
  std::vector<const cpu::KernelEntry*> kernels;
  for (const plan::Step& step : job.steps)
    kernels.push_back(cpu::find_kernel(cpu::fast_kernels(), step.op.name()));
  return cpu::assign_layouts(job, kernels);
}

/// images -> max_pool2d -> relu -> reshape, where images are plain and have three channels.
plan::Job pooled() {
  JobBuilder b;
  const auto x = b.input("x", {4, 3, 8, 6});
  const auto y =
      b.step("max_pool2d", "y", {x},
             {{"ksize", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"padding", Ints{0, 0, 0, 0}}},
             {4, 3, 4, 3});
  b.second_result("y.argmax", {4, 3, 4, 3}, DType::kUInt8);
  const auto z = b.step("relu", "z", {y}, {}, {4, 3, 4, 3}, DType::kFloat32, y);
  b.step("reshape", "flat", {z}, {{"shape", Ints{4, 36}}}, {4, 36}, DType::kFloat32, z);
  return b.build();
}

}  // namespace

TEST_CASE("activations lie channels-last, weights, their gradients and inputs plain", "[cpu]") {
  const plan::Job job = test::lenet_training(3);
  const std::vector<cpu::Layout> layouts = layouts_of(job);
  for (const char* name : {"conv1/conv", "conv1/pool", "conv1/pool.argmax", "conv2/conv",
                           "flat:diff", "conv2:dx", "conv1:dpool"})
    CHECK(layouts[test::tensor(job, name).index()] == cpu::Layout::kChannelsLast);
  for (const char* name : {"images", "conv1/weight", "conv2:dw", "conv2/weight:update", "flat"})
    CHECK(layouts[test::tensor(job, name).index()] == cpu::Layout::kPlain);
}

TEST_CASE("a tap leaves every layout as it was", "[cpu]") {
  JobBuilder b;
  const auto x = b.input("x", {4, 3, 8, 6}), w = b.variable("w", {5, 3, 1, 1});
  const auto plain = b.step("scale", "plain", {x}, {{"factor", 2.0}}, {4, 3, 8, 6});
  b.step("convolution", "tap", {plain, w},
         {{"strides", Ints{1, 1}},
          {"padding", Ints{0, 0, 0, 0}},
          {"dilation", Ints{1, 1}},
          {"groups", int64_t{1}}},
         {4, 5, 8, 6});
  b.last_step().probe = true;
  for (cpu::Layout layout : layouts_of(b.build())) CHECK(layout == cpu::Layout::kPlain);
}

TEST_CASE("kernels between plain and channels-last operands see one layout", "[cpu]") {
  const plan::Job job = pooled();
  const test::Arrays values = test::random_values(job);
  const std::vector<std::string> all = {"y", "y.argmax", "z", "flat"};
  CHECK(test::same_bits(test::run(job, values, all, {1, cpu::fast_kernels(), 1, 0}),
                        test::run(job, values, all, {1, cpu::reference_kernels(), 1, 0})));
}

TEST_CASE("a reorder there and back gives the same bytes", "[cpu]") {
  const Shape shape = {2, 19, 5, 7};
  const size_t element = GENERATE(1, 2, 4, 8);
  std::vector<std::byte> plain(static_cast<size_t>(shape.elements()) * element), last(plain),
      back(plain);
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * 37 % 251);
  cpu::reorder(1, element, shape, cpu::Layout::kPlain, plain.data(), cpu::Layout::kChannelsLast,
               last.data());
  cpu::reorder(1, element, shape, cpu::Layout::kChannelsLast, last.data(), cpu::Layout::kPlain,
               back.data());
  CHECK(back == plain);
  // element [1, 2, 3, 4] of [N, C, H, W]
  const size_t from = ((1 * 19 + 2) * 5 + 3) * 7 + 4, to = ((1 * 5 + 3) * 7 + 4) * 19 + 2;
  for (size_t i = 0; i < element; ++i) CHECK(last[to * element + i] == plain[from * element + i]);
}
