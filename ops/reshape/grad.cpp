// Gradient of reshape, and flatten.
#include <fmt/format.h>

#include "compiler/ir/rules.h"
#include "ops/core/axes.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

std::vector<ir::ValueId> reshape_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  return {context.add("reshape", 0, {context.gradient()}, {{"shape", x.extents()}})};
}

ir::ValueId expand_flatten(LayerContext& context) {
  const Shape x = context.operand(0).shape;
  const int64_t given = context.attributes.get<int64_t>("start");
  const auto start = ops::axis_in(given, x.rank());
  if (!start) {
    context.site().bad_attribute("start", Diagnosis::kBadAttribute,
                                 fmt::format("{} has no axis {} to flatten from", x.str(), given));
    return {};
  }
  Integers shape(x.begin(), x.begin() + *start);
  shape.push_back(x.elements(*start, x.rank()));
  return context.add("reshape", "", {context.operands[0]}, {{"shape", std::move(shape)}});
}

}  // namespace

std::span<const Rules> reshape() {
  static constexpr Rules kRules[] = {{"flatten", nullptr, expand_flatten},
                                     {"reshape", reshape_gradient}};
  return kRules;
}

}  // namespace flow::grad
