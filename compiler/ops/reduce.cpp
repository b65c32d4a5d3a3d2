// Sums and means over axes.
#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"

namespace flow::ops {
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

/// Every element that was summed gets the sum's gradient.
ir::ValueId spread(GradientContext& context, ir::ValueId dy) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Integers axes = context.node.attributes.get<Integers>("axes");
  const Shape kept = reduced(x, axes, true);
  if (kept != context.value_of(context.result(0)).shape)
    dy = context.add("reshape", 0, {dy}, {{"shape", kept.extents()}}, "reshape");
  return context.add("broadcast_to", 0, {dy}, {{"shape", x.extents()}});
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

std::vector<AttributeDef> reduce_attributes() {
  return {{"axis", AttributeType::kIntegers, "all", "the axes to reduce, one or a list"},
          {"keepdims", AttributeType::kBool, "false", "leave reduced axes as extents of 1"}};
}

}  // namespace

std::span<const OpDef> reduce() {
  static const OpDef kOps[] = {
      {
          .name = "reduce_sum",
          .doc = "The sum over axes.",
          .formula = "y = sum x",
          .operands = {{"in", "any shape"}},
          .attributes = reduce_attributes(),
          .infer = infer_reduce,
          .gradient = reduce_sum_gradient,
          .examples = {"reduce_sum(f32[3,4])", "reduce_sum(f32[2,3,4]) axis=1",
                       "reduce_sum(f32[2,3,4]) axis=[0,-1] keepdims=true",
                       "reduce_sum(f32[5000,3]) axis=0"},
      },
      {
          .name = "reduce_mean",
          .doc = "The mean over axes.",
          .formula = "y = (sum x) / count",
          .operands = {{"in", "any shape"}},
          .attributes = reduce_attributes(),
          .infer = infer_reduce,
          .gradient = reduce_mean_gradient,
          .examples = {"reduce_mean(f32[3,4])", "reduce_mean(f32[2,3,4]) axis=1",
                       "reduce_mean(f32[2,3,4]) axis=[0,-1] keepdims=true",
                       "reduce_mean(f32[5000])"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
