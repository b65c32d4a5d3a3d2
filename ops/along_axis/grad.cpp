// Gradients of elements picked, written and added up along an axis, and counts.
#include "compiler/grad/filled.h"
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

using ir::ValueId;

ir::Attributes axis_of(const GradientContext& context) {
  return {{"axis", *context.node.attributes.find("axis")}};
}

std::vector<ValueId> take_along_axis_gradient(GradientContext& context) {
  const ValueId zeros = zeros_like(context, 0, context.value_of(context.operand(0)), "zeros");
  return {context.add("add_along_axis", 0, {zeros, context.operand(1), context.gradient()},
                      axis_of(context)),
          ValueId()};
}

std::vector<ValueId> add_along_axis_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(3);
  if (context.wanted[0]) gradients[0] = context.gradient();
  if (context.wanted[2])
    gradients[2] = context.add("take_along_axis", 2, {context.gradient(), context.operand(1)},
                               axis_of(context));
  return gradients;
}

/// Where no later update has the same index, as bools: each writes its place along the axis, and
/// finds it again unless another was written over it.
ValueId last_updates(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Shape picked = context.value_of(context.operand(1)).shape;
  const ValueId indices = context.operand(1);
  const ValueId ones = filled(context, 2, 1, picked, DType::kInt64, "ones");
  const ValueId none = filled(context, 2, 0, x, DType::kInt64, "none");
  const ValueId places = context.add(
      "cumsum", 2, {ones},
      {{"axis", *context.node.attributes.find("axis")}, {"exclusive", false}, {"reverse", false}},
      "places");
  const ValueId written =
      context.add("put_along_axis", 2, {none, indices, places}, axis_of(context), "written");
  const ValueId found =
      context.add("take_along_axis", 2, {written, indices}, axis_of(context), "found");
  return context.add("equal", 2, {found, places}, {}, "last");
}

std::vector<ValueId> put_along_axis_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(3);
  const ir::Value updates = context.value_of(context.operand(2));
  const ValueId dy = context.gradient(), indices = context.operand(1);
  if (context.wanted[0]) {
    const ValueId zeros = zeros_like(context, 0, updates, "zeros");
    gradients[0] = context.add("put_along_axis", 0, {dy, indices, zeros}, axis_of(context));
  }
  if (!context.wanted[2]) return gradients;
  const ValueId last = last_updates(context);
  const ValueId taken = context.add("take_along_axis", 2, {dy, indices}, axis_of(context), "taken");
  const ValueId zero = filled(context, 2, 0, Shape{}, updates.dtype, "zero");
  gradients[2] = context.add("where", 2, {last, taken, zero}, {});
  return gradients;
}

/// Ones, added up at the integers.
ValueId expand_bincount(LayerContext& context) {
  const int64_t elements = context.operand(0).shape.elements();
  const auto of_counts = [&](std::string_view part, double value, int64_t count) {
    return context.add(
        "fill", part, {},
        {{"value", value}, {"shape", std::vector<int64_t>{count}}, {"dtype", DType::kInt64}});
  };
  const ValueId flat = context.add("reshape", "flat", {context.operands[0]},
                                   {{"shape", std::vector<int64_t>{elements}}});
  const ValueId zeros = of_counts("zeros", 0, context.attributes.get<int64_t>("size"));
  const ValueId ones = of_counts("ones", 1, elements);
  return context.add("add_along_axis", "", {zeros, flat, ones}, {{"axis", int64_t{0}}});
}

}  // namespace

std::span<const Rules> along_axis() {
  static constexpr Rules kRules[] = {
      {"take_along_axis", take_along_axis_gradient},
      {"put_along_axis", put_along_axis_gradient},
      {"add_along_axis", add_along_axis_gradient},
      {"bincount", nullptr, expand_bincount},
  };
  return kRules;
}

}  // namespace flow::grad
