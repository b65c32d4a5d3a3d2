// Gradient of max_pool2d, and max_pool1d.
#include "compiler/grad/pool.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> max_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "max_pool2d_grad", {context.gradient(), context.result(1)});
}

ir::ValueId expand_max_pool1d(LayerContext& context) {
  return expand_pool1d(context, "max_pool2d");
}

}  // namespace

std::span<const Rules> max_pool() {
  static constexpr Rules kRules[] = {{"max_pool1d", nullptr, expand_max_pool1d},
                                     {"max_pool2d", max_pool2d_gradient}};
  return kRules;
}

}  // namespace flow::grad
