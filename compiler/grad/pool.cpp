// What rules of pools have in common.
#include "compiler/grad/pool.h"

#include <numeric>

#include "compiler/grad/layers.h"
#include "ops/pool/pool.h"

namespace flow::grad {
namespace {

std::optional<ops::Pool> read_pool1d(const LayerContext& context) {
  ops::Call call = context.call();
  std::optional<ops::Pool> pool;
  if (ops::has_rank(call, 0, 3, "(N, C, L)")) pool = ops::read_pool(call, {1, call.shape(0)[2]}, 1);
  context.report(call);
  return pool;
}

/// Images pooled along the axes `high` and `wide`; themselves where windows are elements.
ir::ValueId pooled(const LayerContext& context, std::string_view op, std::string_view part,
                   ir::ValueId images, const ops::AxisWindows& high, const ops::AxisWindows& wide) {
  const auto keeps = [](const ops::AxisWindows& axis) {
    return axis.size == 1 && axis.stride == 1;
  };
  if (keeps(high) && keeps(wide)) return images;
  return context.add(
      op, part, {images},
      {{"ksize", std::vector<int64_t>{high.size, wide.size}},
       {"strides", std::vector<int64_t>{high.stride, wide.stride}},
       {"padding", std::vector<int64_t>{high.pads[0], high.pads[1], wide.pads[0], wide.pads[1]}}});
}

ir::ValueId in_shape(const LayerContext& context, std::string_view part, ir::ValueId x,
                     std::vector<int64_t> shape) {
  return context.add("reshape", part, {x}, {{"shape", std::move(shape)}});
}

}  // namespace

ir::ValueId expand_pool3d(LayerContext& context, std::string_view op) {
  ops::Call call = context.call();
  const auto windows = ops::read_pool3d(call);
  if (context.report(call)) return {};
  const auto& [deep, high, wide] = *windows;
  const Shape x = context.operand(0).shape;
  const ir::ValueId planes =
      in_shape(context, "planes", context.operands[0], {x[0], x[1] * x[2], x[3], x[4]});
  const ir::ValueId images = pooled(context, op, "pool", planes, high, wide);
  const ir::ValueId columns =
      in_shape(context, "columns", images, {x[0], x[1], x[2], high.count * wide.count});
  const ir::ValueId y = pooled(context, op, "pool_depth", columns, deep, ops::AxisWindows());
  return in_shape(context, "", y, {x[0], x[1], deep.count, high.count, wide.count});
}

ir::ValueId expand_global_pool(LayerContext& context, std::string_view op) {
  const Shape& x = context.operand(0).shape;
  if (!has_channels(context, 3)) return {};
  std::vector<int64_t> axes(static_cast<size_t>(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return context.add(
      op, "", {context.operands[0]},
      {{"axis", std::move(axes)}, {"keepdims", *context.attributes.find("keepdims")}});
}

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
