// What rules of pools have in common.
#include "compiler/grad/pool.h"

#include "compiler/grad/windows.h"
#include "ops/pool.h"

namespace flow::grad {
namespace {

std::optional<ops::Pool> read_pool1d(const LayerContext& context) {
  ops::Call call = context.call();
  std::optional<ops::Pool> pool;
  if (ops::has_rank(call, 0, 3, "(N, C, L)")) pool = ops::read_pool(call, {1, call.shape(0)[2]}, 1);
  context.report(call);
  return pool;
}

}  // namespace

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

ir::ValueId expand_pool1d(LayerContext& context, std::string_view op) {
  const auto pool = read_pool1d(context);
  if (!pool) return {};
  const ir::ValueId x = with_height(context, "expand", context.operands[0]);
  const ir::ValueId y = context.add(
      op, "pool", {x},
      {{"ksize", pool->size()}, {"strides", pool->strides()}, {"padding", pool->placed.padding}});
  return without_height(context, "restore", y);
}

}  // namespace flow::grad
