// The gradient of top_k, and the expansion of sort and argsort.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> top_k_gradient(GradientContext& context) {
  const auto axis = context.node.attributes.get<int64_t>("axis");
  const int64_t extent = context.value_of(context.operand(0)).shape[static_cast<int>(axis)];
  return {context.add("top_k_grad", 0, {context.gradient(), context.result(1)},
                      {{"axis", axis}, {"extent", extent}})};
}

ir::ValueId reversed(const LayerContext& context, std::string_view part, ir::ValueId x,
                     int64_t axis) {
  return context.add("flip", part, {x}, {{"axis", std::vector<int64_t>{axis}}});
}

/// Sorts all elements of an axis: the largest come first, and of equal elements the first one.
ir::ValueId all_of(const LayerContext& context, ir::ValueId x, int64_t axis) {
  const int64_t n = context.operand(0).shape[static_cast<int>(axis)];
  return context.add("top_k", "top", {x}, {{"k", n}, {"axis", axis}});
}

/// Sorts in ascending order by sorting the reversed elements in descending order and reversing the
/// result. Of equal elements, the first one then comes first again.
ir::ValueId expand_sort(LayerContext& context) {
  const auto axis = context.axis();
  if (!axis) return {};
  const ir::ValueId x = context.operands[0];
  if (context.attributes.get<bool>("descending")) return all_of(context, x, *axis);
  const ir::ValueId top = all_of(context, reversed(context, "reversed", x, *axis), *axis);
  return reversed(context, "", top, *axis);
}

ir::ValueId expand_argsort(LayerContext& context) {
  const auto axis = context.axis();
  if (!axis) return {};
  const auto places = [&](ir::ValueId x) {
    const ir::ValueId values = all_of(context, x, *axis);
    return context.result_beside(values, 1);
  };
  if (context.attributes.get<bool>("descending")) return places(context.operands[0]);
  const ir::ValueId from_end = places(reversed(context, "reversed", context.operands[0], *axis));
  if (!from_end.valid()) return {};
  const int64_t n = context.operand(0).shape[static_cast<int>(*axis)];
  const ir::ValueId last = context.number("last", static_cast<double>(n - 1), DType::kInt64);
  const ir::ValueId descending = context.add("subtract", "places", {last, from_end});
  return reversed(context, "", descending, *axis);
}

}  // namespace

std::vector<Rules> top_k() {
  return {{"top_k", top_k_gradient},
          {"sort", nullptr, expand_sort},
          {"argsort", nullptr, expand_argsort}};
}

}  // namespace flow::grad
