// Attention in 16 bits, by the library and by our kernel, beside the reference on the same numbers.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/element_types.h"
#include "tests/property/cuda/device_case.h"

namespace flow::test {
namespace {

struct AttentionExtents {
  int64_t queries, keys, depth, value_depth;
};

/// RoundedArray to `dtype`, and the same numbers in float32.
struct RoundedArray {
  Array low_precision, wide;
};

RoundedArray round_to(DType dtype, const Array& values) {
  RoundedArray made{Array(dtype, values.shape()), Array(DType::kFloat32, values.shape())};
  visit_any_float(dtype, [&]<typename T>(T) {
    if constexpr (sizeof(T) == 2)
      std::ranges::transform(values.as<float>(), made.low_precision.as<T>().begin(),
                             [](float value) { return convert<T>(value); });
    std::ranges::transform(made.low_precision.as<T>(), made.wide.as<float>().begin(),
                           [](T value) { return convert<float>(value); });
  });
  return made;
}

Array in_float32(const Array& values) {
  if (values.dtype() == DType::kFloat32) return values;
  Array made(DType::kFloat32, values.shape());
  visit_any_float(values.dtype(), [&]<typename T>(T) {
    std::ranges::transform(values.as<T>(), made.as<float>().begin(),
                           [](T value) { return convert<float>(value); });
  });
  return made;
}

/// The case in 16 bits, and in float32.
struct CasePair {
  KernelCase low_precision, wide;

  void add(const RoundedArray& operand) {
    low_precision.inputs.push_back(operand.low_precision);
    wide.inputs.push_back(operand.wide);
  }
  void add(const Array& operand) {
    low_precision.inputs.push_back(operand);
    wide.inputs.push_back(operand);
  }
  void results(DType dtype, const std::vector<Shape>& shapes) {
    for (const Shape& shape : shapes) {
      low_precision.results.push_back({dtype, shape});
      wide.results.push_back({DType::kFloat32, shape});
    }
  }
};

/// `window`, `diagonal`: 0 for none.
CasePair pair_of(const char* op, bool causal, int64_t depth, int64_t window, int64_t diagonal) {
  KernelCase one{
      op, {{"causal", causal}, {"scale", 1 / std::sqrt(static_cast<double>(depth))}}, {}, {}};
  if (window > 0) one.attributes.emplace_back("window", window);
  if (diagonal != 0) one.attributes.emplace_back("diagonal", diagonal);
  return {one, one};
}

/// Largest difference, beside the largest value there.
void check_near(const KernelRun& got, const KernelRun& expected, double tolerance) {
  REQUIRE(got.outputs.size() == expected.outputs.size());
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    const Array made = in_float32(got.outputs[i]);
    double largest = 0, difference = 0;
    for (size_t k = 0; k < made.as<float>().size(); ++k) {
      const double want = expected.outputs[i].as<float>()[k];
      largest = std::max(largest, std::abs(want));
      const double off = std::abs(made.as<float>()[k] - want);
      difference = std::isnan(off) ? INFINITY : std::max(difference, off);
    }
    CAPTURE(i, largest);
    CHECK(difference <= tolerance * largest);
  }
}

/// By the library where it has the case, and by our kernel, which alone takes a mask: one of that
/// shape that hides nothing.
void check_both(const CasePair& made, Shape mask, double tolerance) {
  const KernelRun expected = run_kernel(made.wide, {cpu::reference_kernels()});
  check_near(run_on_device(made.low_precision).run, expected, tolerance);
  KernelCase own = made.low_precision;
  own.inputs.emplace_back(DType::kBool, std::move(mask));
  std::ranges::fill(own.inputs.back().as<bool>(), true);
  check_near(run_on_device(own).run, expected, tolerance);
}

TEST_CASE("attention in 16 bits is the reference's on rounded operands, whoever computes it",
          "[cuda]") {
  const DType dtype = GENERATE(DType::kBFloat16, DType::kFloat16);
  const bool causal = GENERATE(true, false);
  const AttentionExtents n =
      GENERATE(AttentionExtents{128, 128, 64, 64}, AttentionExtents{70, 130, 32, 16});
  CAPTURE(name_of(dtype), causal, n.queries);
  const double tolerance = dtype == DType::kBFloat16 ? 0.02 : 0.003;
  const bool shared = n.queries < n.keys;  // heads share a key, and causal calls have a window
  const int64_t heads = shared ? 1 : 2, window = shared && causal ? 50 : 0;
  const int64_t diagonal = causal && dtype == DType::kFloat16 ? n.keys - n.queries : 0;
  const Shape query{1, 2, n.queries, n.depth}, key{1, heads, n.keys, n.depth},
      value{1, heads, n.keys, n.value_depth}, out{1, 2, n.queries, n.value_depth};
  Random random(21);
  CasePair forward = pair_of("scaled_dot_product_attention", causal, n.depth, window, diagonal);
  const auto draw = [&](const Shape& shape) {
    return round_to(dtype, random_array(random, DType::kFloat32, shape));
  };
  const RoundedArray q = draw(query), k = draw(key), v = draw(value);
  for (const RoundedArray* operand : {&q, &k, &v}) forward.add(*operand);
  forward.results(dtype, {out, {1, 2, n.queries}});
  forward.low_precision.results[1].dtype = DType::kFloat32;
  check_both(forward, {n.queries, n.keys}, tolerance);

  const KernelRun made = run_kernel(forward.wide, {cpu::reference_kernels()});
  CasePair backward =
      pair_of("scaled_dot_product_attention_grad", causal, n.depth, window, diagonal);
  backward.add(draw(out));
  for (const RoundedArray* operand : {&q, &k, &v}) backward.add(*operand);
  backward.add(round_to(dtype, made.outputs[0]));
  backward.add(made.outputs[1]);
  backward.results(dtype, {query, key, value});
  check_both(backward, {n.queries, n.keys}, 2 * tolerance);
}

TEST_CASE("attention with a bias and lengths is the reference's on rounded operands", "[cuda]") {
  const bool causal = GENERATE(true, false), biased = GENERATE(true, false),
             has_lengths = GENERATE(true, false);
  if (!biased && !has_lengths) return;
  const DType dtype = causal ? DType::kBFloat16 : DType::kFloat16;
  CAPTURE(name_of(dtype), causal, biased, has_lengths);
  const double tolerance = dtype == DType::kBFloat16 ? 0.02 : 0.003;
  const Shape query{3, 2, 20, 8}, key{3, 1, 128, 8}, value{3, 1, 128, 16}, out{3, 2, 20, 16};
  Random random(22);
  const auto draw = [&](const Shape& shape) {
    return round_to(dtype, random_array(random, DType::kFloat32, shape));
  };
  const RoundedArray q = draw(query), k = draw(key), v = draw(value);
  Array scores = random_array(random, DType::kFloat32, {3, 1, 20, 128});
  // All keys of a query are hidden.
  std::ranges::fill(scores.as<float>().subspan(13 * 128, 128), -INFINITY);
  const RoundedArray bias = round_to(dtype, scores);
  Array lengths(DType::kInt64, {3});
  std::ranges::copy(std::vector<int64_t>{65, 0, 128}, lengths.as<int64_t>().begin());
  const auto hide = [&](CasePair& pair) {
    if (biased) pair.add(bias);
    if (has_lengths) pair.add(lengths);
  };
  const auto check = [&](const CasePair& pair, double most) {
    if (biased && has_lengths) return check_both(pair, {20, 128}, most);
    check_near(run_on_device(pair.low_precision).run,
               run_kernel(pair.wide, {cpu::reference_kernels()}), most);
  };
  CasePair forward = pair_of("scaled_dot_product_attention", causal, 8, 0, 0);
  for (const RoundedArray* operand : {&q, &k, &v}) forward.add(*operand);
  hide(forward);
  forward.results(dtype, {out, {3, 2, 20}});
  forward.low_precision.results[1].dtype = DType::kFloat32;
  const KernelRun made = run_kernel(forward.wide, {cpu::reference_kernels()});
  check(forward, tolerance);

  CasePair backward = pair_of("scaled_dot_product_attention_grad", causal, 8, 0, 0);
  backward.add(draw(out));
  for (const RoundedArray* operand : {&q, &k, &v}) backward.add(*operand);
  backward.add(round_to(dtype, made.outputs[0]));
  backward.add(made.outputs[1]);
  hide(backward);
  backward.results(dtype, {query, key, value});
  check(backward, 2 * tolerance);
}

}  // namespace
}  // namespace flow::test
