// Random calls: sums, means, extremes, products, softmax.
#include <algorithm>
#include <cmath>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase reduce(const std::string& op, Random& random) {
  const Shape x = any_shape(random);
  const bool keepdims = random_between(random, 0, 1) == 1;
  Integers axes, kept;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool reduced = random_between(random, 0, 1) == 1;
    if (reduced) axes.push_back(axis);
    if (!reduced || keepdims) kept.push_back(reduced ? 1 : x[axis]);
  }
  return {op,
          {{"axes", axes}, {"keepdims", keepdims}},
          {random_array(random, kF, x)},
          {{kF, Shape(kept)}}};
}

KernelCase reduce_numbers(const std::string& op, Random& random) {
  KernelCase one = reduce(op, random);
  if (random_between(random, 0, 1) == 0) return one;
  const DType dtype = pick_integer(random);
  one.inputs[0] = random_array(random, dtype, one.inputs[0].shape());
  one.results[0].dtype = dtype;
  return one;
}

KernelCase reduce_bools(const std::string& op, Random& random) {
  KernelCase one = reduce(op, random);
  one.inputs[0] = random_array(random, DType::kBool, one.inputs[0].shape());
  one.results[0].dtype = DType::kBool;
  return one;
}

/// Products of numbers near 1, some of which are 0.
KernelCase prod(const std::string& op, Random& random) {
  KernelCase one = reduce_numbers(op, random);
  if (one.results[0].dtype != kF) return one;
  const bool zeros = random_between(random, 0, 1) == 0;
  for (float& x : one.inputs[0].as<float>())
    x = zeros && random_between(random, 0, 9) == 0 ? 0.0f : 1 + x / 256;
  return one;
}

/// The same numbers again, so that there are ties.
KernelCase reduce_grad(const std::string& op, Random& random) {
  const bool product = op == "reduce_prod_grad";
  KernelCase one = product ? prod("reduce_prod", random) : reduce("reduce_max", random);
  while (one.results[0].dtype != kF) one = prod("reduce_prod", random);
  if (!product)
    for (float& x : one.inputs[0].as<float>()) x = std::round(x * 50);
  const Array y = run_kernel(one, {cpu::reference_kernels()}).outputs[0];
  const Shape x = one.inputs[0].shape();
  one.op = op;
  one.inputs.insert(one.inputs.begin(), random_array(random, kF, y.shape()));
  if (!product) one.inputs.push_back(y);
  one.results = {{kF, x}};
  return one;
}

KernelCase softmax(const std::string& op, Random& random) {
  const Shape drawn = any_shape(random, 1);
  const int64_t axis = pick_axis(random, drawn);
  const Shape x = with_few_rows(with_few_rows(drawn, 0, axis), axis + 1, drawn.rank());
  KernelCase one{op, {{"axis", axis}}, {random_array(random, kF, x)}, {{kF, x}}};
  for (float& v : one.inputs[0].as<float>()) v *= 8;
  if (!op.ends_with("_grad")) return one;
  // Results of the op, so that what is summed up is as large as it can be.
  const std::string forward = op.substr(0, op.size() - 5);
  one.inputs.push_back(
      run_kernel({forward, one.attributes, one.inputs, one.results}, {cpu::reference_kernels()})
          .outputs[0]);
  one.inputs[0] = random_array(random, kF, x);
  return one;
}

/// Of one row, whose numbers go up to 16 apart.
int64_t row_of(const KernelCase& one) {
  const auto axis = std::get<int64_t>(one.attributes[0].second);
  return 16 + one.inputs[0].shape()[static_cast<int>(axis)];
}

/// Elements multiplied to one, each with an error of its own.
int64_t multiplied(const KernelCase& one) {
  const bool gradient = one.op == "reduce_prod_grad";
  const Shape& x = gradient ? one.inputs[1].shape() : one.inputs[0].shape();
  const Shape& y = gradient ? one.inputs[0].shape() : one.results[0].shape;
  return std::max<int64_t>(2, x.elements() / y.elements());
}

/// Elements summed up to one.
int64_t summed(const KernelCase& one) {
  return one.inputs[0].shape().elements() / one.results[0].shape.elements();
}

}  // namespace

std::span<const CaseMaker> reduction_cases() {
  static constexpr CaseMaker kCases[] = {
      {"reduce_sum", reduce_numbers, summed}, {"reduce_mean", reduce, summed},
      {"logsumexp", reduce, summed},          {"reduce_all", reduce_bools},
      {"reduce_any", reduce_bools},           {"reduce_extreme_grad", reduce_grad},
      {"reduce_max", reduce_numbers},         {"reduce_min", reduce_numbers},
      {"reduce_prod", prod, multiplied},      {"reduce_prod_grad", reduce_grad, multiplied},
      {"log_softmax", softmax, row_of},       {"log_softmax_grad", softmax, row_of},
      {"softmax", softmax, row_of},           {"softmax_grad", softmax, row_of},
  };
  return kCases;
}

}  // namespace flow::test
