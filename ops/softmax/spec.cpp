// The records of softmax, of its logarithm, and of their gradients.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

AttributeSpec softmax_axis() { return axis_attribute("-1", "axis to normalize over"); }

OpSpec softmax_forward(std::string_view name, std::string_view doc, std::string_view formula,
                       std::string_view numpy, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape except a scalar"}},
          .attributes = {softmax_axis()},
          .normalize = normalize_axis,
          .infer = infer_along_axis,
          .flops = {5},
          .numpy = numpy,
          .examples = std::move(examples)};
}

OpSpec softmax_backward(std::string_view name, std::string_view formula) {
  return {.name = name,
          .doc = "Gradient of the op in its name.",
          .formula = formula,
          .operands = {{"dy", "any shape"}, {"y", "result of the op"}},
          .attributes = {softmax_axis()},
          .normalize = normalize_axis,
          .infer = infer_along_axis_grad,
          .linear = {0},
          .flops = {4},
          .internal = true};
}

}  // namespace

std::vector<OpSpec> softmax() {
  return {
      softmax_forward("softmax", "Softmax along an axis, numerically stable for large inputs.",
                      "y = e^x / sum e^x", "np.exp(x) / np.sum(np.exp(x), axis, keepdims=True)",
                      {"softmax(f32[3,4])", "softmax(f32[3,4,2]) axis=1",
                       "softmax(f32[3,70,20]) axis=-2", "softmax(f32[5,1100])"}),
      softmax_backward("softmax_grad", "dx = y (dy - sum(dy y))"),
      softmax_forward(
          "log_softmax", "Logarithm of softmax, accurate where softmax is almost 0.",
          "y = x - ln(sum e^x)", "x - np.log(np.sum(np.exp(x), axis, keepdims=True))",
          {"log_softmax(f32[3,4])", "log_softmax(f32[3,4,2]) axis=0", "log_softmax(f32[5,1100])"}),
      softmax_backward("log_softmax_grad", "dx = dy - e^y sum(dy)"),
  };
}

}  // namespace flow::ops
