// Reductions over axes.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

using Integers = std::vector<int64_t>;

bool among(const Integers& axes, int axis) {
  return std::ranges::find(axes, int64_t{axis}) != axes.end();
}

/// The extents that are left; reduced ones stay as 1 with `keepdims`.
Shape reduced(const Shape& shape, const Integers& axes, bool keepdims) {
  Integers extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!among(axes, axis))
      extents.push_back(shape[axis]);
    else if (keepdims)
      extents.push_back(1);
  }
  return Shape(std::move(extents));
}

void infer_reduce(Inference& inference) {
  const auto axes = normalise_axes(inference, 0);
  if (!axes) return;
  const ir::Value& x = inference.operand(0);
  const bool keepdims = inference.attribute<bool>("keepdims");
  int rows = x.rows;
  if (rows >= 0 && among(*axes, rows))
    rows = ir::kMixedRows;
  else if (rows >= 0 && !keepdims)
    rows -=
        static_cast<int>(std::ranges::count_if(*axes, [&](int64_t axis) { return axis < x.rows; }));
  inference.result(x.dtype, reduced(x.shape, *axes, keepdims), rows);
}

/// A result, or its gradient, with the reduced axes kept as extents of 1.
ir::ValueId with_ones(GradientContext& context, ir::ValueId value, std::string_view part) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Shape kept = reduced(x, context.node.attributes.get<Integers>("axes"), true);
  if (context.value_of(value).shape == kept) return value;
  return context.add("reshape", 0, {value}, {{"shape", kept.extents()}}, part);
}

/// Every element that was summed gets the sum's gradient.
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

/// A gradient op that has the same axes.
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
  return {context.add("multiply", 0, {share, dy}, {})};
}

/// Operand 1 is what was reduced.
void infer_reduce_grad(Inference& inference) {
  const auto axes = normalise_axes(inference, 1);
  if (!axes) return;
  const ir::Value& x = inference.operand(1);
  const Shape results = reduced(x.shape, *axes, inference.attribute<bool>("keepdims"));
  if (have_shape(inference, 0, 1, results) &&
      have_shape(inference, 2, inference.operands(), results))
    inference.result(x.dtype, x.shape, x.rows);
}

std::vector<AttributeDef> reduce_attributes() {
  return {{"axis", AttributeType::kIntegers, "all", "axis to reduce, or a list of axes"},
          {"keepdims", AttributeType::kBool, "false", "keep the reduced axes with size 1"}};
}

OpDef reduction(std::string_view name, std::string_view doc, std::string_view formula,
                Accepts accepts, GradientRule gradient, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape", accepts}},
          .attributes = reduce_attributes(),
          .infer = infer_reduce,
          .gradient = gradient,
          .examples = std::move(examples)};
}

OpDef reduction_grad(std::string_view name, std::string_view doc, std::string_view formula,
                     std::vector<OperandDef> operands) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = std::move(operands),
          .attributes = reduce_attributes(),
          .infer = infer_reduce_grad,
          .internal = true};
}

}  // namespace

std::span<const OpDef> reduce() {
  static const OpDef kOps[] = {
      reduction("reduce_sum", "Sum over axes; integers wrap around.", "y = sum x", Accepts::kNumber,
                reduce_sum_gradient,
                {"reduce_sum(f32[3,4])", "reduce_sum(f32[2,3,4]) axis=1",
                 "reduce_sum(f32[2,3,4]) axis=[0,-1] keepdims=true",
                 "reduce_sum(f32[5000,3]) axis=0", "reduce_sum(u8[40,3]) axis=0"}),
      reduction("reduce_mean", "Mean over axes.", "y = (sum x) / count", Accepts::kFloat,
                reduce_mean_gradient,
                {"reduce_mean(f32[3,4])", "reduce_mean(f32[2,3,4]) axis=1",
                 "reduce_mean(f32[2,3,4]) axis=[0,-1] keepdims=true", "reduce_mean(f32[5000])"}),
      reduction("reduce_max",
                "Maximum over axes; NaN if any element is NaN. On ties, the first element receives "
                "the gradient.",
                "y = max x", Accepts::kNumber, extreme_gradient,
                {"reduce_max(f32[3,4])", "reduce_max(f32[2,3,4]) axis=1",
                 "reduce_max(f32[2,3,4]) axis=[0,-1] keepdims=true", "reduce_max(i8[5,3]) axis=0"}),
      reduction("reduce_min",
                "Minimum over axes; NaN if any element is NaN. On ties, the first element receives "
                "the gradient.",
                "y = min x", Accepts::kNumber, extreme_gradient,
                {"reduce_min(f32[3,4])", "reduce_min(f32[2,3,4]) axis=1", "reduce_min(i64[5])"}),
      reduction(
          "reduce_prod",
          "Product over axes; integers wrap around. The gradient is exact for zeros, too.",
          "y = prod x", Accepts::kNumber, prod_gradient,
          {"reduce_prod(f32[3,4])", "reduce_prod(f32[2,3,4]) axis=1",
           "reduce_prod(f32[2,3,4]) axis=[0,-1] keepdims=true", "reduce_prod(i32[5,3]) axis=0"}),
      reduction("reduce_any", "True if any element along the axes is true.",
                "y = x[0] or x[1] or ...", Accepts::kBool, nullptr,
                {"reduce_any(bool[3,4])", "reduce_any(bool[2,3,4]) axis=1"}),
      reduction("reduce_all", "True if all elements along the axes are true.",
                "y = x[0] and x[1] and ...", Accepts::kBool, nullptr,
                {"reduce_all(bool[3,4])", "reduce_all(bool[2,3,4]) axis=[0,2] keepdims=true"}),
      reduction(
          "logsumexp",
          "Logarithm of the sum of exponentials over axes, numerically stable for large inputs.",
          "y = ln(sum e^x)", Accepts::kFloat, logsumexp_gradient,
          {"logsumexp(f32[3,4])", "logsumexp(f32[2,3,4]) axis=1",
           "logsumexp(f32[2,3,4]) axis=[0,-1] keepdims=true", "logsumexp(f32[7000])"}),
      reduction_grad("reduce_extreme_grad", "Gradient of reduce_max and reduce_min.",
                     "dx = dy at the first x equal to y, else 0",
                     {{"dy", "same shape as the result"}, {"x", "any shape"}, {"y", "the result"}}),
      reduction_grad("reduce_prod_grad", "Gradient of reduce_prod.",
                     "dx = dy times the product of the other elements",
                     {{"dy", "same shape as the result"}, {"x", "any shape"}}),
  };
  return kOps;
}

}  // namespace flow::defs
