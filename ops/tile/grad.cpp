// Gradient of tile.
#include <fmt/format.h>

#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

/// The sum over the copies, along one axis after another.
std::vector<ir::ValueId> tile_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Integers multiples = context.node.attributes.get<Integers>("multiples");
  Shape left = context.value_of(context.gradient()).shape;
  ir::ValueId sum = context.gradient();
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t copies = multiples[static_cast<size_t>(axis)];
    if (copies == 1) continue;
    left[axis] = x[axis];
    const Integers apart = {left.elements(0, axis), copies, left.elements(axis, left.rank())};
    sum = context.add("reshape", 0, {sum}, {{"shape", apart}}, fmt::format("copies{}", axis));
    sum = context.add("reduce_sum", 0, {sum}, {{"axis", Integers{1}}, {"keepdims", false}},
                      fmt::format("sum{}", axis));
  }
  return {context.add("reshape", 0, {sum}, {{"shape", x.extents()}})};
}

}  // namespace

std::span<const Rules> tile() {
  static constexpr Rules kRules[] = {{"tile", tile_gradient}};
  return kRules;
}

}  // namespace flow::grad
