// Gradient of avg_pool2d; average pools over lengths and over whole images.
#include <fmt/format.h>

#include <numeric>

#include "compiler/grad/pool.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> avg_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "avg_pool2d_grad", {context.gradient()});
}

ir::ValueId expand_avg_pool1d(LayerContext& context) {
  return expand_pool1d(context, "avg_pool2d");
}

ir::ValueId expand_global_avg_pool(LayerContext& context) {
  const Shape& x = context.operand(0).shape;
  if (x.rank() < 3) {
    context.site().bad_operand(
        0, Diagnosis::kRankMismatch,
        fmt::format("{} has fewer than 3 dimensions; expected (N, C, ...)", x.str()));
    return {};
  }
  std::vector<int64_t> axes(static_cast<size_t>(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return context.add(
      "reduce_mean", "", {context.operands[0]},
      {{"axis", std::move(axes)}, {"keepdims", *context.attributes.find("keepdims")}});
}

}  // namespace

std::span<const Rules> avg_pool() {
  static constexpr Rules kRules[] = {{"avg_pool1d", nullptr, expand_avg_pool1d},
                                     {"avg_pool2d", avg_pool2d_gradient},
                                     {"global_avg_pool", nullptr, expand_global_avg_pool}};
  return kRules;
}

}  // namespace flow::grad
