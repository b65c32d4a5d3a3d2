// The gradient of transpose.
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

std::vector<ir::ValueId> transpose_gradient(GradientContext& context) {
  const Integers perm = context.node.attributes.get<Integers>("perm");
  Integers inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return {context.add("transpose", 0, {context.gradient()}, {{"perm", inverse}})};
}

}  // namespace

std::vector<Rules> transpose() { return {{"transpose", transpose_gradient}}; }

}  // namespace flow::grad
