// Random calls: functions of one number and their gradients.
#include <algorithm>
#include <cmath>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

/// In [-8, 8], where the functions bend; positive where the op is of positive numbers, and in
/// (0, 1) where it is the result of a function into there.
Array operand(const std::string& op, Random& random, const Shape& shape) {
  Array x = random_array(random, kF, shape);
  const bool positive = op.starts_with("log") || op.starts_with("sqrt") ||
                        op.starts_with("rsqrt") || op == "exp_grad";
  const bool share = op == "sigmoid_grad" || op == "tanh_grad";
  for (float& v : x.as<float>()) {
    if (positive) v = std::abs(v) + 0.01f;
    if (share) v = std::clamp(std::abs(v), 0.01f, 0.99f);
    if (!share) v *= 8;
  }
  return x;
}

std::vector<std::pair<std::string, plan::Attribute>> attributes_of(const std::string& op,
                                                                   Random& random) {
  if (op.starts_with("clip_by_value")) return {{"min", -2.5}, {"max", 3.0}};
  if (op.starts_with("elu") || op.starts_with("leaky_relu")) return {{"alpha", 0.3}};
  if (op.starts_with("gelu"))
    return {{"approximate", std::string(random_between(random, 0, 1) == 0 ? "none" : "tanh")}};
  return {};
}

KernelCase function(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  return {op,
          attributes_of(op, random),
          {operand(op, random, shape)},
          {{kF, shape, static_cast<int>(random_between(random, -1, 0))}}};
}

KernelCase function_grad(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  return {op,
          attributes_of(op, random),
          {random_array(random, kF, shape), operand(op, random, shape)},
          {{kF, shape, static_cast<int>(random_between(random, -1, 1))}}};
}

KernelCase of_numbers(const std::string& op, Random& random) {
  if (random_between(random, 0, 1) == 0) return function(op, random);
  const Shape shape = any_shape(random);
  const DType dtype = pick_integer(random);
  return {op, {}, {random_array(random, dtype, shape)}, {{dtype, shape}}};
}

/// Of which some are rounded before they are raised.
int64_t many_terms(const KernelCase&) { return 16; }

}  // namespace

std::span<const CaseMaker> functions_cases() {
  static constexpr CaseMaker kCases[] = {
      {"abs", of_numbers},
      {"negative", of_numbers},
      {"sign", of_numbers},
      {"square", of_numbers},
      {"clip_by_value", function},
      {"clip_by_value_grad", function_grad},
      {"cos", function},
      {"cos_grad", function_grad},
      {"elu", function},
      {"elu_grad", function_grad},
      {"exp", function},
      {"exp_grad", function_grad},
      {"gelu", function, many_terms},
      {"gelu_grad", function_grad, many_terms},
      {"hardswish", function, two_terms},
      {"hardswish_grad", function_grad, two_terms},
      {"leaky_relu", function},
      {"leaky_relu_grad", function_grad},
      {"log", function},
      {"log_grad", function_grad},
      {"relu", function},
      {"relu_grad", function_grad},
      {"relu6", function},
      {"relu6_grad", function_grad},
      {"rsqrt", function},
      {"rsqrt_grad", function_grad},
      {"sigmoid", function},
      {"sigmoid_grad", function_grad},
      {"silu", function, two_terms},
      {"silu_grad", function_grad, many_terms},
      {"sin", function},
      {"sin_grad", function_grad},
      {"softplus", function},
      {"softplus_grad", function_grad},
      {"sqrt", function},
      {"sqrt_grad", function_grad},
      {"tanh", function},
      {"tanh_grad", function_grad},
  };
  return kCases;
}

}  // namespace flow::test
