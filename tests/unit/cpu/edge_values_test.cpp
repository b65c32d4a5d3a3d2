// Arithmetic and reductions where random numbers do not reach: ties, NaN, infinities, zeros, the
// ends of integers.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "tests/property/kernel_case.h"

namespace flow::test {
namespace {

constexpr DType kFloat = DType::kFloat32;
using Attributes = std::vector<std::pair<std::string, plan::Attribute>>;

/// What both kernels give for operands of one dtype: numbers that are equal, or NaN.
template <typename T>
std::vector<T> result(const std::string& op, const Attributes& attributes,
                      std::vector<Array> operands, Shape shape) {
  const DType dtype = DTypeOf<T>::value;
  const KernelCase one{op, attributes, std::move(operands), {{dtype, std::move(shape)}}};
  const Array fast = run_kernel(one, {cpu::fast_kernels()}).outputs[0];
  const Array reference = run_kernel(one, {cpu::reference_kernels()}).outputs[0];
  for (int64_t i = 0; i < fast.shape().elements(); ++i) {
    const double a = number_at(fast, i), b = number_at(reference, i);
    CHECK((a == b || (std::isnan(a) && std::isnan(b))));
  }
  return {fast.as<T>().begin(), fast.as<T>().end()};
}

const Attributes kAll = {{"axes", std::vector<int64_t>{0}}, {"keepdims", false}};

}  // namespace

TEST_CASE("the larger and the smaller of two are NaN where either is", "[cpu]") {
  const Array a = array_of<float>({4}, {1, kNan, 1, kInfinity});
  const Array b = array_of<float>({4}, {2, 1, kNan, -kInfinity});
  const std::vector<float> larger = result<float>("maximum", {}, {a, b}, {4});
  CHECK(larger[0] == 2);
  CHECK(std::isnan(larger[1]));
  CHECK(std::isnan(larger[2]));
  CHECK(larger[3] == kInfinity);
  const std::vector<float> smaller = result<float>("minimum", {}, {a, b}, {4});
  CHECK(smaller[0] == 1);
  CHECK(std::isnan(smaller[1]));
  CHECK(std::isnan(smaller[2]));
}

TEST_CASE("powers of integers with negative exponents are cut off, and large ones wrap around",
          "[cpu]") {
  const Array a = array_of<int32_t>({7}, {1, -1, -1, 2, 0, 3, 0});
  const Array b = array_of<int32_t>({7}, {-5, -3, -2, -1, -1, 40, 0});
  CHECK(result<int32_t>("pow", {}, {a, b}, {7}) ==
        std::vector<int32_t>{1, -1, 1, 0, 0, static_cast<int32_t>(12157665459056928801ull), 1});
}

TEST_CASE("the least integer is its own opposite", "[cpu]") {
  const auto least = std::numeric_limits<int64_t>::min();
  const Array x = array_of<int64_t>({2}, {least, -3});
  CHECK(result<int64_t>("negative", {}, {x}, {2}) == std::vector<int64_t>{least, 3});
  CHECK(result<int64_t>("abs", {}, {x}, {2}) == std::vector<int64_t>{least, 3});
  CHECK(result<int64_t>("sign", {}, {x}, {2}) == std::vector<int64_t>{-1, -1});
}

TEST_CASE("gradients of powers are 0 where the power does not move", "[cpu]") {
  const Array dy = array_of<float>({3}, {1, 1, 1});
  const Array a = array_of<float>({3}, {0, 0, 2}), b = array_of<float>({3}, {0, 2, 0});
  CHECK(result<float>("pow_grad_base", {}, {dy, a, b}, {3}) == std::vector<float>{0, 0, 0});
  const std::vector<float> of_exponent = result<float>("pow_grad_exponent", {}, {dy, a, b}, {3});
  CHECK(of_exponent[0] == 0);
  CHECK(of_exponent[1] == 0);
  CHECK(of_exponent[2] == Approx(std::log(2.0)));
}

TEST_CASE("kinks have the gradients that are promised", "[cpu]") {
  const Array dy = array_of<float>({4}, {1, 1, 1, 1});
  const Array x = array_of<float>({4}, {0, 6, 3, -3});
  CHECK(result<float>("relu6_grad", {}, {dy, x}, {4}) == std::vector<float>{0, 0, 1, 0});
  CHECK(result<float>("hardswish_grad", {}, {dy, x}, {4}) == std::vector<float>{0.5f, 1, 1, 0});
  CHECK(result<float>("clip_by_value_grad", {{"min", 0.0}, {"max", 3.0}}, {dy, x}, {4}) ==
        std::vector<float>{1, 0, 1, 0});
  CHECK(result<float>("l1_grad", {}, {dy, x, x}, {4}) == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("reductions know NaN and infinities", "[cpu]") {
  const Array x = array_of<float>({3}, {1, kNan, 2}), y = array_of<float>({2}, {1, -kInfinity});
  CHECK(std::isnan(result<float>("reduce_max", kAll, {x}, {})[0]));
  CHECK(std::isnan(result<float>("reduce_min", kAll, {x}, {})[0]));
  CHECK(std::isnan(result<float>("logsumexp", kAll, {x}, {})[0]));
  CHECK(result<float>("reduce_min", kAll, {y}, {})[0] == -kInfinity);
  CHECK(result<float>("logsumexp", kAll, {y}, {})[0] == 1);
  const Array none = array_of<float>({2}, {-kInfinity, -kInfinity});
  CHECK(result<float>("logsumexp", kAll, {none}, {})[0] == -kInfinity);
  CHECK(result<float>("logsumexp", kAll, {array_of<float>({2}, {kInfinity, 1})}, {})[0] ==
        kInfinity);
}

TEST_CASE("the first of the largest takes the gradient, on whichever axis", "[cpu]") {
  const Array dy = array_of<float>({2}, {10, 20});
  const Array x = array_of<float>({2, 3}, {1, 5, 5, 7, 7, kNan}),
              y = array_of<float>({2}, {5, kNan});
  const Attributes rows = {{"axes", std::vector<int64_t>{1}}, {"keepdims", false}};
  CHECK(result<float>("reduce_extreme_grad", rows, {dy, x, y}, {2, 3}) ==
        std::vector<float>{0, 10, 0, 0, 0, 20});
  const Array columns = array_of<float>({3, 2}, {1, 7, 5, 7, 5, 1}),
              top = array_of<float>({2}, {5, 7});
  CHECK(result<float>("reduce_extreme_grad", kAll, {dy, columns, top}, {3, 2}) ==
        std::vector<float>{0, 20, 10, 0, 0, 0});
}

TEST_CASE("gradients of products are exact with no zero, one, and two", "[cpu]") {
  const Array dy = array_of<float>({3}, {1, 10, 100});
  const Array x = array_of<float>({3, 3}, {2, 3, 4, 2, 0, 4, 0, 3, 0});
  const Attributes rows = {{"axes", std::vector<int64_t>{1}}, {"keepdims", false}};
  CHECK(result<float>("reduce_prod_grad", rows, {dy, x}, {3, 3}) ==
        std::vector<float>{12, 8, 6, 0, 80, 0, 0, 0, 0});
}

TEST_CASE("softmax of large and of infinite numbers", "[cpu]") {
  const Attributes last = {{"axis", int64_t{0}}};
  CHECK(result<float>("softmax", last, {array_of<float>({2}, {3e38f, -3e38f})}, {2}) ==
        std::vector<float>{1, 0});
  CHECK(result<float>("softmax", last, {array_of<float>({2}, {0, -kInfinity})}, {2}) ==
        std::vector<float>{1, 0});
  CHECK(result<float>("log_softmax", last, {array_of<float>({2}, {1e30f, 0})}, {2}) ==
        std::vector<float>{0, -1e30f});
  CHECK(std::isnan(result<float>("softmax", last, {array_of<float>({2}, {kNan, 0})}, {2})[1]));
}

TEST_CASE("losses of large logits are exact", "[cpu]") {
  const Array z = array_of<float>({2}, {1, 0}), x = array_of<float>({2}, {-1e30f, 1e30f});
  CHECK(result<float>("sigmoid_cross_entropy_with_logits", {}, {z, x}, {2}) ==
        std::vector<float>{1e30f, 1e30f});
  const KernelCase one{
      "softmax_cross_entropy_with_logits", {}, {z, x}, {{kFloat, {}}, {kFloat, {2}}}};
  CHECK(run_kernel(one, {cpu::fast_kernels()}).outputs[0].as<float>()[0] == 2e30f);
}

TEST_CASE("logsumexp along rows of any length knows infinities and NaN", "[cpu]") {
  const int64_t n = GENERATE(1, 2, 15, 16, 17, 63, 64, 65, 511, 513, 9000);
  const float odd = GENERATE(1.0f, kInfinity, -kInfinity, kNan);
  Array x(kFloat, {3, n});
  std::ranges::fill(x.as<float>(), 1.0f);
  x.as<float>()[static_cast<size_t>(2 * n - 1)] = odd;  // the last of the second row
  std::fill_n(&x.as<float>()[static_cast<size_t>(2 * n)], n, -kInfinity);
  const KernelCase one{
      "logsumexp", {{"axes", std::vector<int64_t>{1}}, {"keepdims", false}}, {x}, {{kFloat, {3}}}};
  const Array fast = run_kernel(one, {cpu::fast_kernels()}).outputs[0];
  const Array reference = run_kernel(one, {cpu::reference_kernels()}).outputs[0];
  for (int64_t i = 0; i < 3; ++i) {
    CAPTURE(n, odd, i);
    const double a = number_at(fast, i), b = number_at(reference, i);
    CHECK((a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) < 1e-6 * std::abs(b)));
  }
  CHECK(number_at(fast, 0) == Approx(1 + std::log(static_cast<double>(n))));
  CHECK(number_at(fast, 2) == -kInfinity);
}

TEST_CASE("sines and cosines are the same beside numbers that are far", "[cpu]") {
  Random random(4);
  const int64_t n = 100;
  Array x = random_array(random, kFloat, {n});
  for (float& value : x.as<float>()) value *= 1e4f;
  const Array dy = random_array(random, kFloat, {n});
  const auto results_of = [&](const Array& of) {
    std::vector<Array> made;
    for (const char* op : {"sin", "cos"})
      made.push_back(run_kernel({op, {}, {of}, {{kFloat, {n}}}}, {cpu::fast_kernels()}).outputs[0]);
    for (const char* op : {"sin_grad", "cos_grad"})
      made.push_back(
          run_kernel({op, {}, {dy, of}, {{kFloat, {n}}}}, {cpu::fast_kernels()}).outputs[0]);
    return made;
  };
  const std::vector<Array> near = results_of(x);
  x.as<float>()[7] = 3e30f;
  const std::vector<Array> far = results_of(x);
  for (size_t i = 0; i < near.size(); ++i)
    for (int64_t at = 0; at < n; ++at)
      if (at != 7) CHECK(number_at(near[i], at) == number_at(far[i], at));
  CHECK(number_at(far[0], 7) == Approx(std::sin(static_cast<double>(3e30f))));
  CHECK(number_at(far[3], 7) == Approx(-number_at(dy, 7) * std::sin(static_cast<double>(3e30f))));
}

}  // namespace flow::test
