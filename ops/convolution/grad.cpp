// Gradients of convolutions, which are convolutions with the same windows or their gradients.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

/// Adds the gradient of operand i as a convolution with the same windows, or as one of its
/// gradients. The attribute `shape_name` receives the shape of operand i.
ir::ValueId same_windows(GradientContext& context, std::string_view op, size_t i,
                         std::vector<ir::ValueId> operands, std::string_view shape_name = {}) {
  ir::Attributes windows = context.attributes({"strides", "padding", "dilation", "groups"});
  if (!shape_name.empty())
    windows.set(shape_name, context.value_of(context.operand(i)).shape.extents());
  return context.add(op, i, std::move(operands), std::move(windows));
}

/// Adds the gradient of the input first, so that nothing reads the weight after its own gradient is
/// computed.
std::vector<ir::ValueId> convolution_gradient(GradientContext& context) {
  const ir::ValueId x = context.operand(0), weight = context.operand(1), dy = context.gradient();
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0])
    gradients[0] = same_windows(context, "convolution_grad_data", 0, {dy, weight}, "input_shape");
  if (context.wanted[1])
    gradients[1] = same_windows(context, "convolution_grad_weight", 1, {x, dy}, "weight_shape");
  return gradients;
}

/// Adds the gradients of a transposed convolution. It is the data gradient of a convolution, so its
/// own data gradient is that convolution.
std::vector<ir::ValueId> grad_data_gradient(GradientContext& context) {
  const ir::ValueId x = context.operand(0), weight = context.operand(1), dy = context.gradient();
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) gradients[0] = same_windows(context, "convolution", 0, {dy, weight});
  if (context.wanted[1])
    gradients[1] = same_windows(context, "convolution_grad_weight", 1, {dy, x}, "weight_shape");
  return gradients;
}

}  // namespace

std::vector<Rules> convolution() {
  return {{"convolution", convolution_gradient}, {"convolution_grad_data", grad_data_gradient}};
}

}  // namespace flow::grad
