// softmax, its logarithm, and their gradients.
#include <fmt/format.h>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

void infer_softmax(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& x = inference.operand(0);
  inference.result(x.dtype, x.shape, rows_beside(x.rows, *axis));
}

void infer_softmax_grad(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis || !inference.same_dtype()) return;
  const ir::Value& dy = inference.operand(0);
  if (have_shape(inference, 1, 2, dy.shape))
    inference.result(dy.dtype, dy.shape, rows_beside(dy.rows, *axis));
}

std::vector<ir::ValueId> softmax_gradient(GradientContext& context) {
  return {context.add(fmt::format("{}_grad", context.node.op->name), 0,
                      {context.gradient(), context.result(0)},
                      {{"axis", *context.node.attributes.find("axis")}})};
}

AttributeDef axis() { return {"axis", AttributeType::kInteger, "-1", "axis to normalize over"}; }

OpDef forward(std::string_view name, std::string_view doc, std::string_view formula,
              std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape except a scalar"}},
          .attributes = {axis()},
          .infer = infer_softmax,
          .gradient = softmax_gradient,
          .examples = std::move(examples)};
}

OpDef backward(std::string_view name, std::string_view formula) {
  return {.name = name,
          .doc = "Gradient of the op in its name.",
          .formula = formula,
          .operands = {{"dy", "any shape"}, {"y", "result of the op"}},
          .attributes = {axis()},
          .infer = infer_softmax_grad,
          .internal = true};
}

}  // namespace

std::span<const OpDef> softmax() {
  static const OpDef kOps[] = {
      forward("softmax", "Softmax along an axis, numerically stable for large inputs.",
              "y = e^x / sum e^x",
              {"softmax(f32[3,4])", "softmax(f32[3,4,2]) axis=1", "softmax(f32[3,70,20]) axis=-2",
               "softmax(f32[5,1100])"}),
      backward("softmax_grad", "dx = y (dy - sum(dy y))"),
      forward(
          "log_softmax", "Logarithm of softmax, accurate where softmax is almost 0.",
          "y = x - ln(sum e^x)",
          {"log_softmax(f32[3,4])", "log_softmax(f32[3,4,2]) axis=0", "log_softmax(f32[5,1100])"}),
      backward("log_softmax_grad", "dx = dy - e^y sum(dy)"),
  };
  return kOps;
}

}  // namespace flow::defs
