// Dropout: a layer that is nothing in predict jobs, a primitive in train jobs.
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

ir::ValueId expand_dropout(LayerContext& context) {
  if (!context.train) return context.operands[0];
  return context.add("dropout", "", {context.operands[0]}, context.attributes);
}

/// The entry's path names the draw, whoever clones or moves the node.
void infer_dropout(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  if (!inference.has("consumer")) inference.normalise("consumer", std::string(inference.name()));
  inference.result(x.dtype, x.shape, x.rows);
  inference.result(DType::kBool, x.shape, x.rows);
}

void infer_dropout_grad(Inference& inference) {
  const ir::Value& dy = inference.operand(0);
  if (inference.shape(1) != dy.shape)
    inference.bad_operand(1, Diagnosis::kShapeMismatch, "the mask has a different shape");
  else
    inference.result(dy.dtype, dy.shape, dy.rows);
}

std::vector<ir::ValueId> dropout_gradient(GradientContext& context) {
  return {context.add("dropout_grad", 0, {context.gradient(), context.result(1)},
                      {{"rate", *context.node.attributes.find("rate")}})};
}

AttributeDef rate() {
  return {.name = "rate",
          .type = AttributeType::kNumber,
          .fallback = "",
          .doc = "fraction of elements to drop",
          .min = 0,
          .below = 1};
}

}  // namespace

std::span<const OpDef> dropout() {
  static const OpDef kOps[] = {
      {
          .name = "dropout",
          .doc = "Dropout (Srivastava et al., 2014): zeroes random elements and rescales the rest; "
                 "the identity in inference mode.",
          .formula = "y = x mask / (1 - rate)",
          .operands = {{"in", "any shape"}},
          .attributes = {rate()},
          .results = {"out", "mask"},
          .infer = infer_dropout,
          .gradient = dropout_gradient,
          .expand = expand_dropout,
          .trains_otherwise = true,
          .elementwise = true,
          .examples = {"dropout(f32[30,40]) rate=0.5", "dropout(f32[7]) rate=0.1",
                       "dropout(f32[3,4]) rate=0"},
      },
      {
          .name = "dropout_grad",
          .doc = "Gradient of dropout.",
          .formula = "dx = dy mask / (1 - rate)",
          .operands = {{"dy", "any shape"}, {"mask", "elements that dropout kept", Accepts::kBool}},
          .attributes = {rate()},
          .infer = infer_dropout_grad,
          .elementwise = true,
          .internal = true,
          .examples = {"dropout_grad(f32[30,40], bool[30,40]) rate=0.5"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
