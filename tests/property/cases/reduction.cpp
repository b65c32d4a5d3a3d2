// Random calls: biases, sums, means, places of maxima.
#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase bias(const std::string& op, Random& random) {
  const Shape x = any_shape(random, 2);
  const int64_t axis = pick_axis(random, x);
  const Shape channels = {x[static_cast<int>(axis)]};
  KernelCase one{op, {{"axis", axis}}, {random_array(random, kF, x)}, {{kF, channels}}};
  if (op == "bias_add") {
    one.inputs.push_back(random_array(random, kF, channels));
    one.results = {{kF, x, static_cast<int>(random_between(random, -1, 0))}};
  }
  return one;
}

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

KernelCase argmax(const std::string& op, Random& random) {
  const Shape x = any_shape(random, 1);
  const int64_t axis = pick_axis(random, x);
  Integers out = x.extents();
  out.erase(out.begin() + axis);
  const DType dtype = random_between(random, 0, 1) == 0 ? kF : pick_integer(random);
  return {op, {{"axis", axis}}, {random_array(random, dtype, x)}, {{DType::kInt64, Shape(out)}}};
}

/// Elements summed up to one.
int64_t summed(const KernelCase& one) {
  return one.inputs[0].shape().elements() / one.results[0].shape.elements();
}

}  // namespace

std::span<const CaseMaker> reduction_cases() {
  static constexpr CaseMaker kCases[] = {
      {"bias_add", bias},
      {"bias_add_grad", bias, summed},
      {"reduce_sum", reduce, summed},
      {"reduce_mean", reduce, summed},
      {"argmax", argmax},
  };
  return kCases;
}

}  // namespace flow::test
