// The gradients of tril and triu.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> triangle_gradient(GradientContext& context) {
  return {context.add(context.node.op->name, 0, {context.gradient()},
                      context.attributes({"diagonal"}))};
}

}  // namespace

std::vector<Rules> tril_triu() {
  return {{"tril", triangle_gradient}, {"triu", triangle_gradient}};
}

}  // namespace flow::grad
