// Gradients of operands that were broadcast.
#include "compiler/grad/gradients.h"

namespace flow {

ir::ValueId sum_to_operand(GradientContext& context, size_t i, ir::ValueId gradient) {
  const Shape target = context.value_of(context.operand(i)).shape;
  if (!gradient.valid() || context.value_of(gradient).shape == target) return gradient;
  const Shape full = context.value_of(gradient).shape;
  const int added = full.rank() - target.rank();
  std::vector<int64_t> axes;
  bool one_left = false;  // an extent of 1 that was broadcast, or was there
  for (int axis = 0; axis < full.rank(); ++axis) {
    const bool copied = axis < added || (target[axis - added] == 1 && full[axis] != 1);
    if (copied) axes.push_back(axis);
    if (copied && axis >= added) one_left = true;
  }
  if (!one_left)
    return context.add("reduce_sum", i, {gradient}, {{"axis", axes}, {"keepdims", false}});
  const ir::ValueId sum =
      context.add("reduce_sum", i, {gradient}, {{"axis", axes}, {"keepdims", true}}, "reduce_sum");
  if (added == 0) return sum;
  return context.add("reshape", i, {sum}, {{"shape", target.extents()}});
}

ir::ValueId summed(GradientContext& context, size_t i, std::string_view op,
                   std::vector<ir::ValueId> operands) {
  const bool copied =
      context.value_of(context.operand(i)).shape != context.value_of(context.gradient()).shape;
  return sum_to_operand(context, i, context.add(op, i, std::move(operands), {}, copied ? op : ""));
}

ir::ValueId chosen_gradient(GradientContext& context, size_t i, ir::ValueId condition, bool when) {
  const ir::ValueId dy = context.gradient();
  const ir::ValueId zero =
      context.add("fill", i, {}, {{"value", 0.0}, {"dtype", context.value_of(dy).dtype}}, "zero");
  return summed(context, i, "where",
                when ? std::vector{condition, dy, zero} : std::vector{condition, zero, dy});
}

}  // namespace flow
