// Gradient of max_pool2d; max pools over lengths, volumes and whole images.
#include "compiler/grad/pool.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> max_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "max_pool2d_grad", {context.gradient(), context.result(1)});
}

ir::ValueId expand_max_pool1d(LayerContext& context) {
  return expand_pool1d(context, "max_pool2d");
}

ir::ValueId expand_max_pool3d(LayerContext& context) {
  return expand_pool3d(context, "max_pool2d");
}

ir::ValueId expand_global_max_pool(LayerContext& context) {
  return expand_global_pool(context, "reduce_max");
}

}  // namespace

std::span<const Rules> max_pool() {
  static constexpr Rules kRules[] = {{"max_pool1d", nullptr, expand_max_pool1d},
                                     {"max_pool2d", max_pool2d_gradient},
                                     {"max_pool3d", nullptr, expand_max_pool3d},
                                     {"global_max_pool", nullptr, expand_global_max_pool}};
  return kRules;
}

}  // namespace flow::grad
