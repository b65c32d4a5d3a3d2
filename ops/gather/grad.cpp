// Gradients of gather, scatter_add and scatter_update, and the expansion of the embedding layer.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> gather_gradient(GradientContext& context) {
  const auto axis = context.node.attributes.get<int64_t>("axis");
  return {context.add_picked(context.operand(1), context.gradient(), axis), {}};
}

std::vector<ir::ValueId> scatter_add_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(3);
  if (context.wanted[0]) gradients[0] = context.gradient();
  if (context.wanted[2])
    gradients[2] = context.add("gather", 2, {context.gradient(), context.operand(1)},
                               context.attributes({"axis"}));
  return gradients;
}

/// Returns bools that broadcast to the updates and are true for the last update of each index. Each
/// update writes its number at its index and reads it back; it is the last one if no other update
/// has overwritten the number.
ir::ValueId last_slices(GradientContext& context) {
  const auto axis = static_cast<int>(context.node.attributes.get<int64_t>("axis"));
  const Shape x = context.value_of(context.operand(0)).shape;
  const Shape indices = context.value_of(context.operand(1)).shape;
  const ir::Attributes first = {{"axis", int64_t{0}}};
  const Shape count = {indices.elements()}, extent = {x[axis]};
  const ir::ValueId flat = context.reshape(2, context.operand(1), count.extents(), "indices");
  const ir::ValueId ones = context.fill(2, 1, count, DType::kInt64, "ones");
  const ir::ValueId none = context.fill(2, 0, extent, DType::kInt64, "none");
  const ir::ValueId numbers =
      context.add("cumsum", 2, {ones},
                  {{"axis", int64_t{0}}, {"exclusive", false}, {"reverse", false}}, "numbers");
  const ir::ValueId written =
      context.add("scatter_update", 2, {none, flat, numbers}, first, "written");
  const ir::ValueId found = context.add("gather", 2, {written, flat}, first, "found");
  const ir::ValueId last = context.add("equal", 2, {found, numbers}, {}, "equal");
  std::vector<int64_t> shape = indices.extents();
  shape.resize(shape.size() + static_cast<size_t>(x.rank() - axis - 1), 1);
  return context.reshape(2, last, shape, "last");
}

std::vector<ir::ValueId> scatter_update_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(3);
  const ir::Value updates = context.value_of(context.operand(2));
  const ir::ValueId dy = context.gradient(), indices = context.operand(1);
  const ir::Attributes axis = context.attributes({"axis"});
  if (context.wanted[0]) {
    const ir::ValueId zeros = zeros_like(context, 0, updates, "zeros");
    gradients[0] = context.add("scatter_update", 0, {dy, indices, zeros}, axis);
  }
  if (!context.wanted[2]) return gradients;
  const ir::ValueId last = last_slices(context);
  const ir::ValueId picked = context.add("gather", 2, {dy, indices}, axis, "gather");
  const ir::ValueId zero = context.fill(2, 0, Shape{}, updates.dtype, "zero");
  gradients[2] = context.add("where", 2, {last, picked, zero});
  return gradients;
}

ir::ValueId expand_embedding(LayerContext& context) {
  return context.add("gather", "gather", {context.add_table(), context.operands[0]});
}

}  // namespace

std::vector<Rules> gather() {
  return {{"embedding", nullptr, expand_embedding},
          {"gather", gather_gradient},
          {"scatter_add", scatter_add_gradient},
          {"scatter_update", scatter_update_gradient}};
}

}  // namespace flow::grad
