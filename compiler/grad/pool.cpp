// Gradients of pools; pools over lengths, which are images of height 1, and over whole images.
#include <fmt/format.h>

#include <numeric>

#include "compiler/grad/rules.h"
#include "compiler/grad/windows.h"
#include "ops/pool.h"

namespace flow::grad {
namespace {

std::vector<ir::ValueId> pool_gradient(GradientContext& context, std::string_view op,
                                       std::vector<ir::ValueId> operands) {
  const ir::Attributes& forward = context.node.attributes;
  const Shape x = context.value_of(context.operand(0)).shape;
  return {context.add(op, 0, std::move(operands),
                      {{"ksize", *forward.find("ksize")},
                       {"strides", *forward.find("strides")},
                       {"padding", *forward.find("padding")},
                       {"input_shape", x.extents()}})};
}

std::vector<ir::ValueId> max_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "max_pool2d_grad", {context.gradient(), context.result(1)});
}

std::vector<ir::ValueId> avg_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "avg_pool2d_grad", {context.gradient()});
}

std::optional<ops::Pool> read_pool1d(const LayerContext& context) {
  ops::Call call = context.call();
  std::optional<ops::Pool> pool;
  if (ops::has_rank(call, 0, 3, "(N, C, L)")) pool = ops::read_pool(call, {1, call.shape(0)[2]}, 1);
  context.report(call);
  return pool;
}

/// [N, C, L] as images of height 1, pooled by `op`.
ir::ValueId expand_pool1d(LayerContext& context, std::string_view op) {
  const auto pool = read_pool1d(context);
  if (!pool) return {};
  const ir::ValueId x = with_height(context, "expand", context.operands[0]);
  const ir::ValueId y = context.add(
      op, "pool", {x},
      {{"ksize", pool->size()}, {"strides", pool->strides()}, {"padding", pool->placed.padding}});
  return without_height(context, "restore", y);
}

ir::ValueId expand_max_pool1d(LayerContext& context) {
  return expand_pool1d(context, "max_pool2d");
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

std::span<const Rules> pool() {
  static constexpr Rules kRules[] = {{"max_pool1d", nullptr, expand_max_pool1d},
                                     {"max_pool2d", max_pool2d_gradient},
                                     {"avg_pool1d", nullptr, expand_avg_pool1d},
                                     {"avg_pool2d", avg_pool2d_gradient},
                                     {"global_avg_pool", nullptr, expand_global_avg_pool}};
  return kRules;
}

}  // namespace flow::grad
