// Random calls: operands that broadcast in any way, for the loops that all such ops share.
#include <utility>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

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

KernelCase add(const std::string& op, Random& random) {
  const DType dtype = random_between(random, 0, 2) > 0 ? kF : pick_integer(random);
  const Shape out = any_shape(random);
  const auto [a, b] = two_shapes(random, out);
  KernelCase one{op, {}, {random_array(random, dtype, a), random_array(random, dtype, b)}, {}};
  one.results = {{dtype, out}};
  for (int i = 0; i < 2; ++i)
    if (one.inputs[static_cast<size_t>(i)].shape() == out && random_between(random, 0, 2) == 0)
      one.results[0].alias = i;
  return one;
}

}  // namespace

std::span<const CaseMaker> elementwise_cases() {
  static constexpr CaseMaker kCases[] = {{"add", add}};
  return kCases;
}

}  // namespace flow::test
