// Pools and their gradients over windows that touch, overlap, leave gaps, or reach into the
// padding.
#include <catch2/catch.hpp>

#include <cmath>

#include "tests/property/cuda/device_case.h"
#include "tests/property/tolerance.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
constexpr DType kF = DType::kFloat32;

/// max_pool2d over `x`.
struct Geometry {
  Shape x;
  Integers size, strides, padding = {0, 0, 0, 0};

  Shape y() const {
    const auto count = [&](size_t i) {
      const int64_t padded = x[static_cast<int>(i) + 2] + padding[2 * i] + padding[2 * i + 1];
      return (padded - size[i]) / strides[i] + 1;
    };
    return {x[0], x[1], count(0), count(1)};
  }
  KernelCase pool(const std::string& op, std::vector<Array> inputs,
                  std::vector<Result> results) const {
    return {
        op,
        {{"ksize", size}, {"strides", strides}, {"padding", padding}, {"input_shape", x.extents()}},
        std::move(inputs),
        std::move(results)};
  }
};

const std::vector<Geometry> kGeometries = {
    {{2, 3, 24, 24}, {2, 2}, {2, 2}},
    {{8, 5, 34, 34}, {2, 2}, {2, 2}},  // more windows than a block has threads
    {{1, 1, 1, 1}, {1, 1}, {1, 1}},
    {{2, 3, 7, 5}, {2, 2}, {2, 2}},                // a row and a column are left over
    {{2, 3, 7, 5}, {2, 2}, {2, 2}, {0, 1, 0, 1}},  // "same"
    {{1, 2, 8, 7}, {3, 3}, {3, 3}, {1, 2, 2, 1}},
    {{2, 2, 11, 13}, {2, 1}, {3, 5}, {1, 0, 0, 0}},  // gaps
    {{1, 3, 13, 17}, {13, 17}, {13, 17}},
    {{1, 2, 40, 36}, {18, 17}, {18, 17}},  // places of int32
    {{2, 2, 6, 7}, {2, 3}, {2, 1}},        // apart along one axis
    {{2, 3, 17, 19}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{1, 2, 3, 6}, {2, 2}, {int64_t{1} << 33, 2}},  // indices of 64 bits
    {{1, 2, 5, 6}, {3, 2}, {1, int64_t{1} << 40}, {1, 1, 0, 0}},
};

/// Small whole numbers: many are equal. Some are NaN, infinite or -0.
Array ties(Random& random, const Shape& shape) {
  Array array(kF, shape);
  for (float& value : array.as<float>()) {
    const auto drawn = static_cast<float>(random_between(random, -3, 6));
    value = drawn == 4 ? -0.0F : drawn == 5 ? -kInfinity : drawn == 6 ? kNan : drawn;
  }
  return array;
}

/// The same numbers, with the same signs of zeros.
bool same_numbers(const Array& a, const Array& b) {
  for (int64_t i = 0; i < a.shape().elements(); ++i) {
    const double x = number_at(a, i), y = number_at(b, i);
    const bool same = std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
    if (!same) return false;
  }
  return true;
}

/// The reference's numbers, in float32 and in 16 bits, in any order of lanes.
void require_same_numbers(const KernelCase& one) {
  INFO(one.str());
  for (const KernelCase& run :
       {one, rounded(one, DType::kFloat16), rounded(one, DType::kBFloat16)}) {
    const KernelRun expected = run_kernel(in_float32(run), {cpu::reference_kernels()});
    for (const LaneOrder lanes : {LaneOrder::kForward, LaneOrder::kReversed}) {
      const KernelRun got = run_on_device(run, {lanes}).run;
      for (size_t i = 0; i < one.results.size(); ++i)
        REQUIRE(same_numbers(got.outputs[i], expected.outputs[i]));
    }
  }
}

TEST_CASE("maxima and their gradients are the reference's, whatever the windows", "[cuda]") {
  Random random(20);
  for (const Geometry& g : kGeometries) {
    const DType places = g.size[0] * g.size[1] > 256 ? DType::kInt32 : DType::kUInt8;
    const KernelCase forward =
        g.pool("max_pool2d", {ties(random, g.x)}, {{kF, g.y()}, {places, g.y()}});
    require_same_numbers(forward);
    const Array taken = run_kernel(forward, {cpu::reference_kernels()}).outputs[1];
    // Whole numbers: sums of them are exact in 16 bits.
    require_same_numbers(g.pool("max_pool2d_grad", {ties(random, g.y()), taken}, {{kF, g.x}}));
  }
}

TEST_CASE("means and their gradients are the reference's, whatever the windows", "[cuda]") {
  Random random(21);
  for (const Geometry& g : kGeometries)
    for (const KernelCase& one :
         {g.pool("avg_pool2d", {random_array(random, kF, g.x)}, {{kF, g.y()}}),
          g.pool("avg_pool2d_grad", {random_array(random, kF, g.y())}, {{kF, g.x}})}) {
      INFO(one.str());
      const Array expected = run_kernel(one, {cpu::reference_kernels()}).outputs[0];
      for (const LaneOrder lanes : {LaneOrder::kForward, LaneOrder::kReversed})
        require_near(one, run_on_device(one, {lanes}).run.outputs[0], expected);
    }
}

}  // namespace
}  // namespace flow::test
