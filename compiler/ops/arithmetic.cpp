// Elementwise arithmetic.
#include "compiler/ir/builder.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/families.h"

namespace flow::ops {
namespace {

void infer_arithmetic(Inference& inference) {
  if (inference.same_dtype()) infer_broadcast(inference, inference.operand(0).dtype);
}

std::vector<ir::ValueId> add_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  for (size_t i = 0; i < 2; ++i)
    if (context.wanted[i]) gradients[i] = sum_to_operand(context, i, context.gradient());
  return gradients;
}

std::vector<ir::ValueId> multiply_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  for (size_t i = 0; i < 2; ++i) {
    if (!context.wanted[i]) continue;
    const bool copied =
        context.value_of(context.operand(i)).shape != context.value_of(context.gradient()).shape;
    const ir::ValueId product = context.add(
        "multiply", i, {context.gradient(), context.operand(1 - i)}, {}, copied ? "multiply" : "");
    gradients[i] = sum_to_operand(context, i, product);
  }
  return gradients;
}

void infer_scale(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  inference.result(x.dtype, x.shape, x.rows);
}

std::vector<ir::ValueId> scale_gradient(GradientContext& context) {
  return {context.add("scale", 0, {context.gradient()},
                      {{"factor", *context.node.attributes.find("factor")}})};
}

std::vector<OperandDef> two_operands() {
  return {{"a", "any shape", Accepts::kNumber}, {"b", "any shape, of a's dtype", Accepts::kNumber}};
}

}  // namespace

std::span<const OpDef> arithmetic() {
  static const OpDef kOps[] = {
      {
          .name = "add",
          .doc = "The sum, element by element; shapes broadcast.",
          .formula = "y = a + b",
          .operands = two_operands(),
          .infer = infer_arithmetic,
          .gradient = add_gradient,
          .examples = {"add(f32[3,4], f32[3,4])", "add(f32[2,3,4], f32[3,1])",
                       "add(f32[1,4], f32[3,1])", "add(f32[3], f32[])", "add(i32[3,4], i32[4])",
                       "add(u8[5], u8[5])"},
      },
      {
          .name = "multiply",
          .doc = "The product, element by element; shapes broadcast.",
          .formula = "y = a b",
          .operands = two_operands(),
          .infer = infer_arithmetic,
          .gradient = multiply_gradient,
          .examples = {"multiply(f32[3,4], f32[3,4])", "multiply(f32[2,3,4], f32[3,1])",
                       "multiply(f32[1,4], f32[3,1])", "multiply(f32[3], f32[])",
                       "multiply(i64[3,4], i64[4])", "multiply(i8[5], i8[5])"},
      },
      {
          .name = "scale",
          .doc = "The product with a constant.",
          .formula = "y = factor x",
          .operands = {{"x", "any shape"}},
          .attributes = {{"factor", AttributeType::kNumber, "", "the constant"}},
          .infer = infer_scale,
          .gradient = scale_gradient,
          .elementwise = true,
          .internal = true,
          .examples = {"scale(f32[3,4]) factor=0.25"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
