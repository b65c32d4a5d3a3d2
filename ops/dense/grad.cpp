// Fully connected layers: a product, a bias and an activation.
#include <fmt/format.h>

#include "compiler/grad/layers.h"
#include "compiler/ir/initializers.h"
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// [..., in] as [rows, in]: one product instead of one for each leading index.
ir::ValueId flattened(const LayerContext& context, ir::ValueId x, const Shape& shape) {
  if (shape.rank() == 2) return x;
  const int last = shape.rank() - 1;
  return context.add("reshape", "flatten", {x},
                     {{"shape", std::vector<int64_t>{shape.elements(0, last), shape[last]}}});
}

/// What was made of flattened rows, activated, in the operand's shape but for its last extent.
ir::ValueId restored(const LayerContext& context, ir::ValueId y, const Shape& shape,
                     int64_t units) {
  if (shape.rank() == 2) return context.activate(y);
  std::vector<int64_t> extents = shape.extents();
  extents.back() = units;
  return activate_and_restore(context, y, [&](ir::ValueId rows) {
    return context.add("reshape", "restore", {rows}, {{"shape", extents}});
  });
}

ir::ValueId expand_dense(LayerContext& context) {
  const Shape shape = context.operand(0).shape;
  const DType dtype = context.operand(0).dtype;
  if (shape.rank() < 2) {
    context.site().bad_operand(
        0, Diagnosis::kRankMismatch,
        fmt::format("{} has fewer than 2 dimensions; expected (batch, ..., features)",
                    shape.str()));
    return {};
  }
  const int64_t in = shape[shape.rank() - 1];
  const int64_t units = context.attributes.get<int64_t>("units");
  const Shape weight_shape{units, in};
  const ir::ValueId weight = context.add_variable("weight", "kernel_initializer", dtype,
                                                  weight_shape, fans_of(weight_shape));
  const ir::ValueId x = flattened(context, context.operands[0], shape);
  ir::ValueId y = context.add("matmul", "matmul", {x, weight}, {{"transpose_b", true}});
  if (context.attributes.get<bool>("use_bias")) {
    const ir::ValueId bias =
        context.add_variable("bias", "bias_initializer", dtype, {units}, fans_of(weight_shape));
    y = context.add("bias_add", "bias_add", {y, bias}, {{"axis", int64_t{1}}});
  }
  return restored(context, y, shape, units);
}

}  // namespace

std::span<const Rules> dense() {
  static constexpr Rules kRules[] = {{"dense", nullptr, expand_dense}};
  return kRules;
}

}  // namespace flow::grad
