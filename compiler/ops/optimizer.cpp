// Updates of variables. Learning rates come from the schedule, at each step.
#include <fmt/format.h>

#include "compiler/ops/families.h"

namespace flow::ops {
namespace {

/// Gradient, variable and slots are of one shape and dtype; each but the gradient gets a new value.
void infer_update(Inference& inference) {
  const ir::Value& gradient = inference.operand(0);
  for (size_t i = 1; i < inference.operands(); ++i) {
    const ir::Value& updated = inference.operand(i);
    if (updated.shape != gradient.shape || updated.dtype != gradient.dtype)
      inference.bad_operand(
          i, Diagnosis::kShapeMismatch,
          fmt::format("{} {} for a gradient {} {}", name_of(updated.dtype), updated.shape.str(),
                      name_of(gradient.dtype), gradient.shape.str()));
  }
  if (inference.failed()) return;
  for (size_t i = 1; i < inference.operands(); ++i)
    inference.result(gradient.dtype, gradient.shape, ir::kNoRows);
}

AttributeDef scale() {
  return {"scale", AttributeType::kNumber, "1", "of the gradient: 1 / elements of the loss"};
}

}  // namespace

std::span<const OpDef> optimizer() {
  static const OpDef kOps[] = {
      {
          .name = "sgd_update",
          .doc = "One step of gradient descent.",
          .formula = "w = w + (-lr scale) g, the factor rounded once",
          .operands = {{"gradient", "of the summed loss"}, {"variable", "of the same shape"}},
          .attributes = {scale()},
          .results = {"updated"},
          .infer = infer_update,
          .internal = true,
      },
      {
          .name = "momentum_update",
          .doc = "One step of gradient descent with momentum.",
          .formula = "m = momentum m + scale g; w = w - lr m (nesterov: lr (scale g + momentum m))",
          .operands = {{"gradient", "of the summed loss"},
                       {"variable", "of the same shape"},
                       {"momentum", "the slot, of the same shape"}},
          .attributes = {scale(),
                         {"momentum", AttributeType::kNumber, "", "how much of the slot stays"},
                         {"nesterov", AttributeType::kBool, "false", "look ahead"}},
          .results = {"updated", "momentum"},
          .infer = infer_update,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::ops
