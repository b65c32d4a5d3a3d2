// oneDNN's convolutions by chunks of images: against the reference in many geometries, and the
// same bits for any number of threads.
#include <catch2/catch.hpp>

#include "ops/convolution/cpu_pass.h"
#include "runtime/cpu/loops/parallel.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

using namespace flow;
using test::JobBuilder;
using Ints = std::vector<int64_t>;

namespace {

struct Geometry {
  Shape x, weight;
  Ints strides = {1, 1}, padding = {0, 0, 0, 0}, dilation = {1, 1};
  int64_t groups = 1;
};

Shape result_shape(const Geometry& g) {
  const auto extent = [&](int axis) {
    const size_t i = static_cast<size_t>(axis);
    const int64_t kernel = (g.weight[2 + axis] - 1) * g.dilation[i] + 1;
    return (g.x[2 + axis] + g.padding[2 * i] + g.padding[2 * i + 1] - kernel) / g.strides[i] + 1;
  };
  return {g.x[0], g.weight[0], extent(0), extent(1)};
}

/// y = relu(conv(x, w) + bias), dx and dw for a dy that is given; relu is between two convolutions
/// so that all layouts meet.
plan::Job all_directions(const Geometry& g) {
  JobBuilder b;
  const Shape y = result_shape(g);
  const auto x = b.input("x", g.x), dy = b.input("dy", y);
  const auto w = b.variable("w", g.weight), bias = b.variable("bias", {g.weight[0]});
  b.step("convolution", "y", {x, w},
         {{"strides", g.strides},
          {"padding", g.padding},
          {"dilation", g.dilation},
          {"groups", g.groups}},
         y);
  b.fuse("bias_add", {bias}, {{"axis", int64_t{1}}});
  b.fuse("relu", {}, {});
  const auto dz = b.step("relu_grad", "dz", {dy, test::tensor(b.build(), "y")}, {}, y);
  b.step("convolution_grad_data", "dx", {dz, w},
         {{"strides", g.strides},
          {"padding", g.padding},
          {"dilation", g.dilation},
          {"groups", g.groups},
          {"input_shape", g.x.extents()}},
         g.x);
  b.step("convolution_grad_weight", "dw", {x, dz},
         {{"strides", g.strides},
          {"padding", g.padding},
          {"dilation", g.dilation},
          {"groups", g.groups},
          {"weight_shape", g.weight.extents()}},
         g.weight);
  b.step("bias_add_grad", "db", {dz}, {{"axis", int64_t{1}}}, {g.weight[0]});
  return b.build();
}

const std::vector<std::string> kResults = {"y", "dx", "dw", "db"};

Geometry lenet2() { return {{100, 32, 14, 14}, {64, 32, 5, 5}, {1, 1}, {2, 2, 2, 2}}; }

}  // namespace

TEST_CASE("convolutions agree with the reference in every direction", "[cpu]") {
  const Geometry g =
      GENERATE(Geometry{{1, 1, 1, 1}, {1, 1, 1, 1}}, Geometry{{2, 3, 8, 9}, {4, 3, 3, 3}},
               Geometry{{3, 1, 28, 28}, {32, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}},
               Geometry{{23, 20, 12, 12}, {50, 20, 5, 5}},
               Geometry{{2, 16, 9, 9}, {32, 16, 3, 3}, {2, 2}, {0, 1, 1, 0}},
               Geometry{{2, 4, 11, 10}, {6, 4, 3, 2}, {2, 3}, {1, 2, 0, 1}, {2, 2}},
               Geometry{{5, 8, 7, 7}, {8, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 8},
               Geometry{{5, 32, 7, 7}, {64, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
               Geometry{{4, 6, 7, 7}, {9, 2, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 3},
               Geometry{{12, 17, 6, 5}, {3, 17, 1, 1}}, Geometry{{0, 2, 4, 4}, {3, 2, 3, 3}},
               Geometry{{16, 16, 7, 7}, {32, 16, 7, 7}});
  CAPTURE(g.x.str(), g.weight.str(), g.strides, g.padding, g.dilation, g.groups);
  const plan::Job job = all_directions(g);
  const test::Arrays values = test::random_values(job);
  const test::Arrays fast = test::run(job, values, kResults, {2, cpu::fast_kernels(), 1, 0.1});
  const test::Arrays reference =
      test::run(job, values, kResults, {1, cpu::reference_kernels(), 1, 0.1});
  for (const std::string& name : kResults) {
    CAPTURE(name);
    CHECK(test::relative_difference(fast.at(name), reference.at(name)) < 1e-5);
  }
}

TEST_CASE("convolutions give the same bits whatever oneDNN remembers of earlier ones", "[cpu]") {
  const plan::Job job = all_directions({{16, 16, 6, 6}, {32, 16, 6, 6}});
  const test::Arrays values = test::random_values(job);
  const test::Arrays first = test::run(job, values, kResults);
  CHECK(test::same_bits(first, test::run(job, values, kResults)));
}

TEST_CASE("convolutions give the same bits for any number of threads", "[cpu]") {
  const Geometry g = GENERATE(lenet2(), Geometry{{57, 3, 10, 10}, {20, 3, 3, 3}});
  const plan::Job job = all_directions(g);
  const test::Arrays values = test::random_values(job);
  const test::Arrays one = test::run(job, values, kResults);
  for (int threads : {2, 3, 4, 8})
    CHECK(test::same_bits(one, test::run(job, values, kResults, {threads, {}, 1, 0.1})));
}

TEST_CASE("patches and groups of few channels are not left to oneDNN's plain loops", "[cpu]") {
  using cpu::Direction;
  cpu::ConvolutionGeometry g;
  g.direction = GENERATE(Direction::kForward, Direction::kGradData, Direction::kGradWeight);
  const bool groups = GENERATE(false, true);
  const int64_t kernel = groups ? 3 : 16, stride = groups ? 1 : 16;
  g.groups = groups ? 2 : 1;
  g.x = {2, 4, 64, 64};
  g.weight = {8, 4 / g.groups, kernel, kernel};
  g.y = {2, 8, (64 - kernel) / stride + 1, (64 - kernel) / stride + 1};
  g.y_layout = cpu::Layout::kChannelsLast;
  g.strides = {stride, stride};
  g.dilation = {1, 1};
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const cpu::SingleThreadedLibraries single;
  const auto pass = cpu::make_convolution_pass(engine, g, 2, {});
  CHECK_THAT(pass.implementation, !Catch::Contains("ref"));
}
