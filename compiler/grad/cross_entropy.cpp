// Gradients of losses.
#include "compiler/grad/rules.h"

namespace flow::grad {
namespace {

/// dlabels = -dy log(prob), dlogits = dy (sum(labels) prob - labels)
std::vector<ir::ValueId> dense_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) {
    std::vector<int64_t> column = context.value_of(context.gradient()).shape.extents();
    column.push_back(1);
    const ir::ValueId dy =
        context.add("reshape", 0, {context.gradient()}, {{"shape", column}}, "reshape");
    const ir::ValueId log =
        context.add("log_softmax", 0, {context.operand(1)}, {{"axis", int64_t{-1}}}, "log_softmax");
    const ir::ValueId product = context.add("multiply", 0, {log, dy}, {}, "multiply");
    gradients[0] = context.add("negative", 0, {product}, {});
  }
  if (context.wanted[1])
    gradients[1] = context.add("softmax_cross_entropy_with_logits_grad", 1,
                               {context.operand(0), context.result(1), context.gradient()}, {});
  return gradients;
}

std::vector<ir::ValueId> loss_gradient(GradientContext& context) {
  return {ir::ValueId(),
          context.add("sparse_softmax_cross_entropy_with_logits_grad", 1,
                      {context.operand(0), context.result(1), context.gradient()}, {})};
}

}  // namespace

std::span<const Rules> cross_entropy() {
  static constexpr Rules kRules[] = {{"sparse_softmax_cross_entropy_with_logits", loss_gradient},
                                     {"softmax_cross_entropy_with_logits", dense_gradient}};
  return kRules;
}

}  // namespace flow::grad
