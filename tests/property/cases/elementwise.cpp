// Random calls: arithmetic and comparisons.
#include <cmath>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase scale(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  return {op,
          {{"factor", 0.37}},
          {random_array(random, kF, shape)},
          {{kF, shape, static_cast<int>(random_between(random, -1, 0))}}};
}

/// Operands that broadcast to `out`, in any way.
std::pair<Shape, Shape> two_shapes(Random& random, const Shape& out) {
  Shape a = out, b = repeated(random, out);
  if (out.elements() <= 10000 && random_between(random, 0, 1) == 0) {
    b = out;
    for (int axis = 0; axis < out.rank(); ++axis)
      (random_between(random, 0, 1) == 0 ? a : b)[axis] = 1;
  }
  if (random_between(random, 0, 1) == 0) std::swap(a, b);
  return {a, b};
}

/// Bases are positive, and numbers to be divided by are away from 0.
void adapt(const std::string& op, std::vector<Array>& operands) {
  if (!op.starts_with("pow") && op != "divide") return;
  for (Array& operand : operands)
    if (operand.dtype() == kF)
      for (float& x : operand.as<float>()) x = std::abs(x) + 0.1f;
}

KernelCase float_pair(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const auto [a, b] = two_shapes(random, out);
  KernelCase one{op, {}, {random_array(random, kF, a), random_array(random, kF, b)}, {{kF, out}}};
  adapt(op, one.inputs);
  if (op == "smooth_l1") one.attributes = {{"beta", 0.7}};
  for (int i = 0; i < 2; ++i)
    if (one.inputs[static_cast<size_t>(i)].shape() == out && random_between(random, 0, 2) == 0)
      one.results[0].alias = i;
  return one;
}

KernelCase arithmetic(const std::string& op, Random& random) {
  if (random_between(random, 0, 2) > 0) return float_pair(op, random);
  const DType dtype = pick_integer(random);
  const Shape out = any_shape(random);
  const auto [a, b] = two_shapes(random, out);
  return {op, {}, {random_array(random, dtype, a), random_array(random, dtype, b)}, {{dtype, out}}};
}

KernelCase pair_grad(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const auto [a, b] = two_shapes(random, out);
  KernelCase one{op, {}, {}, {{kF, out, static_cast<int>(random_between(random, -1, 0))}}};
  for (const Shape& shape : {out, a, b}) one.inputs.push_back(random_array(random, kF, shape));
  adapt(op, one.inputs);
  if (op == "smooth_l1_grad") one.attributes = {{"beta", 0.7}};
  return one;
}

KernelCase logical(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  KernelCase one{op, {}, {random_array(random, DType::kBool, out)}, {{DType::kBool, out}}};
  if (op != "logical_not")
    one.inputs.push_back(random_array(random, DType::kBool, repeated(random, out)));
  return one;
}

KernelCase where(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const auto [condition, x] = two_shapes(random, out);
  constexpr DType kDTypes[] = {kF, DType::kBool, DType::kInt64, DType::kUInt8};
  const DType dtype = kDTypes[random_between(random, 0, 3)];
  return {op,
          {},
          {random_array(random, DType::kBool, condition), random_array(random, dtype, x),
           random_array(random, dtype, repeated(random, out))},
          {{dtype, out}}};
}

KernelCase comparison(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const bool of_bools = op == "equal" || op == "not_equal";
  const int kind = static_cast<int>(random_between(random, of_bools ? 0 : 1, 2));
  const DType a = kind == 0 ? DType::kBool : kind == 1 ? kF : pick_integer(random);
  const DType b = kind == 2 ? pick_integer(random) : a;
  return {op,
          {},
          {random_array(random, a, out), random_array(random, b, repeated(random, out))},
          {{DType::kBool, out}}};
}

}  // namespace

std::span<const CaseMaker> elementwise_cases() {
  static constexpr CaseMaker kCases[] = {
      {"scale", scale},
      {"add", arithmetic},
      {"maximum", arithmetic},
      {"minimum", arithmetic},
      {"multiply", arithmetic},
      {"pow", arithmetic},
      {"subtract", arithmetic},
      {"divide", float_pair},
      {"l1", float_pair, two_terms},
      {"mse", float_pair, two_terms},
      {"sigmoid_cross_entropy_with_logits", float_pair, two_terms},
      {"smooth_l1", float_pair, two_terms},
      {"l1_grad", pair_grad, two_terms},
      {"mse_grad", pair_grad, two_terms},
      {"pow_grad_base", pair_grad, two_terms},
      {"pow_grad_exponent", pair_grad, two_terms},
      {"sigmoid_cross_entropy_with_logits_grad", pair_grad, two_terms},
      {"smooth_l1_grad", pair_grad, two_terms},
      {"equal", comparison},
      {"greater", comparison},
      {"greater_equal", comparison},
      {"less", comparison},
      {"less_equal", comparison},
      {"not_equal", comparison},
      {"logical_and", logical},
      {"logical_not", logical},
      {"logical_or", logical},
      {"where", where},
  };
  return kCases;
}

}  // namespace flow::test
