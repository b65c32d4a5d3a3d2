// The gradients of reductions.
#include "compiler/ir/rules.h"
#include "ops/reduce/reduce.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

/// Returns a result, or its gradient, with the reduced axes kept as extents of 1.
ir::ValueId with_ones(GradientContext& context, ir::ValueId value, std::string_view part) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Shape kept = ops::reduced_shape(x, context.node.attributes.get<Integers>("axes"), true);
  if (context.value_of(value).shape == kept) return value;
  return context.reshape(0, value, kept.extents(), part);
}

/// Gives each element that was summed the gradient of the sum.
ir::ValueId spread(GradientContext& context, ir::ValueId dy) {
  const Shape x = context.value_of(context.operand(0)).shape;
  return context.add("broadcast_to", 0, {with_ones(context, dy, "reshape")},
                     {{"shape", x.extents()}});
}

std::vector<ir::ValueId> reduce_sum_gradient(GradientContext& context) {
  return {spread(context, context.gradient())};
}

std::vector<ir::ValueId> reduce_mean_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Shape y = context.value_of(context.result(0)).shape;
  const double count = static_cast<double>(x.elements()) / static_cast<double>(y.elements());
  return {spread(context,
                 context.add("scale", 0, {context.gradient()}, {{"factor", 1 / count}}, "scale"))};
}

/// Adds a gradient op with the same axes.
std::vector<ir::ValueId> add_with_axes(GradientContext& context, std::string_view op,
                                       std::vector<ir::ValueId> operands) {
  return {context.add(op, 0, std::move(operands),
                      {{"axis", *context.node.attributes.find("axes")},
                       {"keepdims", *context.node.attributes.find("keepdims")}})};
}

std::vector<ir::ValueId> extreme_gradient(GradientContext& context) {
  return add_with_axes(context, "reduce_extreme_grad",
                       {context.gradient(), context.operand(0), context.result(0)});
}

std::vector<ir::ValueId> prod_gradient(GradientContext& context) {
  return add_with_axes(context, "reduce_prod_grad", {context.gradient(), context.operand(0)});
}

/// dx = e^(x - y) dy
std::vector<ir::ValueId> logsumexp_gradient(GradientContext& context) {
  const ir::ValueId y = with_ones(context, context.result(0), "result");
  const ir::ValueId dy = with_ones(context, context.gradient(), "reshape");
  const ir::ValueId below = context.add("subtract", 0, {context.operand(0), y}, {}, "subtract");
  const ir::ValueId share = context.add("exp", 0, {below}, {}, "exp");
  return {context.add("multiply", 0, {share, dy})};
}

}  // namespace

std::vector<Rules> reduce() {
  return {{"reduce_sum", reduce_sum_gradient}, {"reduce_mean", reduce_mean_gradient},
          {"reduce_max", extreme_gradient},    {"reduce_min", extreme_gradient},
          {"reduce_prod", prod_gradient},      {"logsumexp", logsumexp_gradient}};
}

}  // namespace flow::grad
