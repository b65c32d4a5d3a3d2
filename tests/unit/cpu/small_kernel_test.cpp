// Kernels where NumPy and random numbers do not reach: NaN, ranges, ties, faults, small formulas.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "runtime/base/element_types.h"
#include "tests/property/kernel_case.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;

/// What the fast kernel gives; the reference must give the same bits.
template <typename T>
std::vector<T> first_result(const KernelCase& one, cpu::Layout layout = cpu::Layout::kPlain) {
  const Array fast = run_kernel(one, {cpu::fast_kernels(), layout}).outputs[0];
  const Array reference = run_kernel(one, {cpu::reference_kernels()}).outputs[0];
  CHECK(std::ranges::equal(fast.bytes(), reference.bytes()));
  return {fast.as<T>().begin(), fast.as<T>().end()};
}

}  // namespace

TEST_CASE("a cast to integers truncates, and takes the nearest where it is out of range", "[cpu]") {
  const Array x = array_of<float>({7}, {1.9f, -1.9f, 300, -300, kNan, kInfinity, -kInfinity});
  CHECK(first_result<int8_t>({"cast", {{"dtype", DType::kInt8}}, {x}, {{DType::kInt8, {7}}}}) ==
        std::vector<int8_t>{1, -1, 127, -128, 0, 127, -128});
  CHECK(first_result<uint8_t>({"cast", {{"dtype", DType::kUInt8}}, {x}, {{DType::kUInt8, {7}}}}) ==
        std::vector<uint8_t>{1, 0, 255, 0, 0, 255, 0});
  const Array large = array_of<float>({2}, {9.3e18f, -9.3e18f});
  CHECK(first_result<int64_t>(
            {"cast", {{"dtype", DType::kInt64}}, {large}, {{DType::kInt64, {2}}}}) ==
        std::vector<int64_t>{std::numeric_limits<int64_t>::max(),
                             std::numeric_limits<int64_t>::min()});
  const Array wide = array_of<int64_t>({3}, {300, -1, 7});
  CHECK(
      first_result<uint8_t>({"cast", {{"dtype", DType::kUInt8}}, {wide}, {{DType::kUInt8, {3}}}}) ==
      std::vector<uint8_t>{255, 0, 7});
}

TEST_CASE("all casts give what the reference gives", "[cpu]") {
  Random random(3);
  for (DType from : {DType::kFloat32, DType::kInt8, DType::kInt32, DType::kBool}) {
    for (DType to : all_dtypes()) {
      INFO(name_of(from) << " to " << name_of(to));
      const KernelCase one{
          "cast", {{"dtype", to}}, {random_array(random, from, {37})}, {{to, {37}}}};
      const Array fast = run_kernel(one, {cpu::fast_kernels()}).outputs[0];
      Array expected(to, {37});
      visit_dtype(from, [&]<typename From>(From) {
        visit_dtype(to, [&]<typename To>(To) {
          const From* x = reinterpret_cast<const From*>(one.inputs[0].bytes().data());
          std::transform(x, x + 37, reinterpret_cast<To*>(expected.bytes().data()),
                         convert<To, From>);
        });
      });
      CHECK(std::ranges::equal(fast.bytes(), expected.bytes()));
    }
  }
}

TEST_CASE("argmax takes the first of equals, and a NaN before any number", "[cpu]") {
  const Array x = array_of<float>({3, 3}, {1, 2, 2, 5, kNan, kNan, -1, -1, -2});
  CHECK(first_result<int64_t>({"argmax", {{"axis", int64_t{1}}}, {x}, {{DType::kInt64, {3}}}}) ==
        std::vector<int64_t>{1, 1, 0});
}

TEST_CASE("max_pool2d takes the first of equals, and the first NaN, at any number of channels",
          "[cpu]") {
  for (int64_t channels : {1, 5, 16, 33}) {
    Array x(DType::kFloat32, {1, channels, 2, 4});
    for (int64_t c = 0; c < channels; ++c) {
      const float image[] = {3, 7, kNan, 9, 7, 7, 9, kNan};
      std::copy(std::begin(image), std::end(image), x.as<float>().begin() + c * 8);
    }
    const Shape y = {1, channels, 1, 2};
    const KernelCase one{
        "max_pool2d",
        {{"ksize", Integers{2, 2}}, {"strides", Integers{2, 2}}, {"padding", Integers{0, 0, 0, 0}}},
        {x},
        {{DType::kFloat32, y}, {DType::kUInt8, y}}};
    for (const auto layout : {cpu::Layout::kPlain, cpu::Layout::kChannelsLast}) {
      const KernelRun run = run_kernel(one, {cpu::fast_kernels(), layout});
      for (int64_t c = 0; c < channels; ++c) {
        CHECK(number_at(run.outputs[0], 2 * c) == 7);
        CHECK(number_at(run.outputs[1], 2 * c) == 1);
        CHECK(std::isnan(number_at(run.outputs[0], 2 * c + 1)));
        CHECK(number_at(run.outputs[1], 2 * c + 1) == 0);
      }
    }
  }
}

TEST_CASE("a padded window of minus infinities has its maximum at its first element inside",
          "[cpu]") {
  for (int64_t channels : {1, 5}) {
    const Shape x = {1, channels, 4, 4}, y = {1, channels, 2, 2};
    Array lowest(DType::kFloat32, x);
    std::ranges::fill(lowest.as<float>(), -kInfinity);
    const KernelCase one{
        "max_pool2d",
        {{"ksize", Integers{3, 3}}, {"strides", Integers{2, 2}}, {"padding", Integers{1, 0, 1, 0}}},
        {lowest},
        {{DType::kFloat32, y}, {DType::kUInt8, y}}};
    for (const auto layout : {cpu::Layout::kPlain, cpu::Layout::kChannelsLast}) {
      const KernelRun run = run_kernel(one, {cpu::fast_kernels(), layout});
      for (int64_t c = 0; c < channels; ++c) {
        CHECK(number_at(run.outputs[0], 4 * c) == -kInfinity);
        CHECK(number_at(run.outputs[1], 4 * c) == 4);
        CHECK(number_at(run.outputs[1], 4 * c + 1) == 3);
        CHECK(number_at(run.outputs[1], 4 * c + 2) == 1);
        CHECK(number_at(run.outputs[1], 4 * c + 3) == 0);
      }
    }
  }
}

TEST_CASE("windows of more than 256 elements keep their places as int32", "[cpu]") {
  Random random(1);
  const Shape x = {1, 3, 20, 20}, y = {1, 3, 2, 3};
  const std::vector<std::pair<std::string, plan::Attribute>> window = {
      {"ksize", Integers{17, 18}}, {"strides", Integers{2, 1}}, {"padding", Integers{0, 0, 0, 0}}};
  const KernelCase one{"max_pool2d",
                       window,
                       {random_array(random, DType::kFloat32, x)},
                       {{DType::kFloat32, y}, {DType::kInt32, y}}};
  const Array places = run_kernel(one, {cpu::fast_kernels()}).outputs[1];
  CHECK(std::ranges::equal(places.bytes(),
                           run_kernel(one, {cpu::reference_kernels()}).outputs[1].bytes()));
  KernelCase back{"max_pool2d_grad",
                  window,
                  {random_array(random, DType::kFloat32, y), places},
                  {{DType::kFloat32, x}}};
  back.attributes.push_back({"input_shape", x.extents()});
  const Array fast = run_kernel(back, {cpu::fast_kernels()}).outputs[0];
  const Array reference = run_kernel(back, {cpu::reference_kernels()}).outputs[0];
  for (int64_t i = 0; i < x.elements(); ++i)
    CHECK(number_at(fast, i) == Approx(number_at(reference, i)).margin(1e-6));
}

TEST_CASE("the loss names the first label out of range, and goes on", "[cpu]") {
  const Array labels = array_of<int32_t>({4}, {0, 3, -1, 2});
  Random random(1);
  const KernelCase one{"sparse_softmax_cross_entropy_with_logits",
                       {},
                       {labels, random_array(random, DType::kFloat32, {4, 3})},
                       {{DType::kFloat32, {4}}, {DType::kFloat32, {4, 3}}}};
  for (const auto kernels : {cpu::fast_kernels(), cpu::reference_kernels()}) {
    const KernelRun run = run_kernel(one, {kernels});
    REQUIRE(run.fault);
    CHECK(run.fault->where == "job.yaml:1:1");
    CHECK(run.fault->operand == "operand");
    CHECK(run.fault->row == 1);
    CHECK(run.fault->value == 3);
    CHECK(run.fault->limit == 3);
    CHECK(std::isfinite(number_at(run.outputs[0], 0)));
    CHECK(std::isnan(number_at(run.outputs[0], 1)));
  }
}

TEST_CASE("the loss of a non-finite row is not finite", "[cpu]") {
  const Array labels = array_of<int32_t>({3}, {0, 0, 0});
  const Array logits = array_of<float>({3, 2}, {kNan, 1, kInfinity, 1, -kInfinity, 1});
  const KernelCase one{"sparse_softmax_cross_entropy_with_logits",
                       {},
                       {labels, logits},
                       {{DType::kFloat32, {3}}, {DType::kFloat32, {3, 2}}}};
  const Array loss = run_kernel(one, {cpu::fast_kernels()}).outputs[0];
  CHECK(std::isnan(number_at(loss, 0)));
  CHECK(std::isnan(number_at(loss, 1)));
  CHECK(number_at(loss, 2) == kInfinity);
}

TEST_CASE("dropout of rate 0 keeps all, and a rate that rounds to 1 drops all", "[cpu]") {
  const Array x = array_of<float>({3}, {1, 2, 3});
  const auto dropped = [&](double rate) {
    return first_result<float>({"dropout",
                                {{"rate", rate}, {"consumer", std::string("drop")}},
                                {x},
                                {{DType::kFloat32, {3}}, {DType::kBool, {3}}}});
  };
  CHECK(dropped(0) == std::vector<float>{1, 2, 3});
  CHECK(dropped(1 - 1e-12) == std::vector<float>{0, 0, 0});
}

TEST_CASE("the SGD update rounds its factor once and its product before the sum", "[cpu]") {
  const Array g = array_of<float>({2}, {3, 0.1f}), w = array_of<float>({2}, {1, 0.7f});
  const float a = static_cast<float>(-0.125 * 0.01);
  const volatile float product = a * 0.1f;
  CHECK(first_result<float>({"sgd_update",
                             {{"scale", 0.01}, {"rate_scale", 1.0}},
                             {g, w},
                             {{DType::kFloat32, {2}, 1}}}) ==
        std::vector<float>{1 + a * 3, 0.7f + product});
}

TEST_CASE("momentum keeps a moving sum of gradients, and looks ahead where it is Nesterov's",
          "[cpu]") {
  const Array g = array_of<float>({1}, {8}), w = array_of<float>({1}, {10}),
              m = array_of<float>({1}, {6});
  for (const bool nesterov : {false, true}) {
    const KernelCase one{"momentum_update",
                         {{"scale", 0.25},
                          {"rate_scale", 1.0},
                          {"momentum", 0.5},
                          {"nesterov", nesterov},
                          {"weight_decay", 0.0}},
                         {g, w, m},
                         {{DType::kFloat32, {1}, 1}, {DType::kFloat32, {1}, 2}}};
    // The learning rate is 1/8; g = 0.25*8 = 2, m = 0.5*6 + g = 5; Nesterov's step is g + 0.5*m.
    const KernelRun run = run_kernel(one, {cpu::fast_kernels()});
    CHECK(number_at(run.outputs[1], 0) == 5);
    CHECK(number_at(run.outputs[0], 0) == 10 - (nesterov ? 4.5 : 5) / 8);
  }
}

TEST_CASE("a sum of many equal numbers keeps its digits", "[cpu]") {
  Array x(DType::kFloat32, {1 << 20});
  std::ranges::fill(x.as<float>(), 0.1f);
  const KernelCase one{
      "reduce_sum", {{"axes", Integers{0}}, {"keepdims", false}}, {x}, {{DType::kFloat32, {}}}};
  CHECK(number_at(run_kernel(one, {cpu::fast_kernels()}).outputs[0], 0) ==
        Approx(0.1f * (1 << 20)).epsilon(1e-6));
}

}  // namespace flow::test
