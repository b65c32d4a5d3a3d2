// The gradients of softmax and of its logarithm.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> softmax_gradient(GradientContext& context) {
  return {context.add(fmt::format("{}_grad", context.node.op->name), 0,
                      {context.gradient(), context.result(0)}, context.attributes({"axis"}))};
}

}  // namespace

std::vector<Rules> softmax() {
  return {{"softmax", softmax_gradient}, {"log_softmax", softmax_gradient}};
}

}  // namespace flow::grad
