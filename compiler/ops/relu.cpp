// The rectifier.
#include <fmt/format.h>

#include "compiler/ir/builder.h"
#include "compiler/ops/families.h"

namespace flow::ops {
namespace {

void infer_relu(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  inference.result(x.dtype, x.shape, x.rows);
}

void infer_relu_grad(Inference& inference) {
  const ir::Value& dy = inference.operand(0);
  if (!inference.same_dtype()) return;
  if (inference.shape(1) == dy.shape)
    inference.result(dy.dtype, dy.shape, dy.rows);
  else
    inference.bad_operand(
        1, Diagnosis::kShapeMismatch,
        fmt::format("{} and {} must be equal", dy.shape.str(), inference.shape(1).str()));
}

std::vector<ir::ValueId> relu_gradient(GradientContext& context) {
  return {context.add("relu_grad", 0, {context.gradient(), context.result(0)}, {})};
}

}  // namespace

std::span<const OpDef> relu() {
  static const OpDef kOps[] = {
      {
          .name = "relu",
          .doc = "The rectifier; its gradient at 0 is 0.",
          .formula = "y = max(x, 0)",
          .operands = {{"in", "any shape"}},
          .infer = infer_relu,
          .gradient = relu_gradient,
          .elementwise = true,
          .examples = {"relu(f32[3,4])", "relu(f32[2,3,5,7])", "relu(f32[])"},
      },
      {
          .name = "relu_grad",
          .doc = "The gradient of relu.",
          .formula = "dx = y > 0 ? dy : 0",
          .operands = {{"dy", "any shape"}, {"y", "relu's result"}},
          .infer = infer_relu_grad,
          .elementwise = true,
          .internal = true,
          .examples = {"relu_grad(f32[3,4], f32[3,4])"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
