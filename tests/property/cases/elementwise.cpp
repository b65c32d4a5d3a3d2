// Random calls: elementwise ops and comparisons.
#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase unary(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op, {}, {random_array(random, kF, shape)}, {{kF, shape}}};
  if (op == "scale") one.attributes = {{"factor", 0.37}};
  if (random_between(random, 0, 1) == 0) one.results[0].alias = 0;
  return one;
}

KernelCase relu_grad(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  return {op,
          {},
          {random_array(random, kF, shape), random_array(random, kF, shape)},
          {{kF, shape, static_cast<int>(random_between(random, -1, 0))}}};
}

KernelCase arithmetic(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const DType dtype = random_between(random, 0, 2) == 0 ? pick_integer(random) : kF;
  Shape a = out, b = repeated(random, out);
  if (out.elements() <= 10000 && random_between(random, 0, 1) == 0) {
    b = out;
    for (int axis = 0; axis < out.rank(); ++axis)
      (random_between(random, 0, 1) == 0 ? a : b)[axis] = 1;
  }
  if (random_between(random, 0, 1) == 0) std::swap(a, b);
  return {op, {}, {random_array(random, dtype, a), random_array(random, dtype, b)}, {{dtype, out}}};
}

KernelCase equal(const std::string& op, Random& random) {
  const Shape out = any_shape(random);
  const int kind = static_cast<int>(random_between(random, 0, 2));
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
      {"relu", unary},     {"scale", unary},         {"relu_grad", relu_grad},
      {"add", arithmetic}, {"multiply", arithmetic}, {"equal", equal},
  };
  return kCases;
}

}  // namespace flow::test
