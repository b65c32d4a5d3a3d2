// Pooling over images, and over lengths, which are images of height 1.
#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "compiler/ops/windows.h"

namespace flow::defs {
namespace {

using ir::kNoRows;
using Integers = std::vector<int64_t>;

WindowNames names_of(int dimensions) { return {"ksize", "window", dimensions}; }

/// Every window must hold an element of the input: a maximum of padding alone is none.
bool pads_are_smaller(CallSite& site, const Integers& pads, const Windows& windows) {
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < windows.size[i / 2]) continue;
    site.bad_attribute(
        "padding", Diagnosis::kBadAttribute,
        fmt::format("the padding is {} for a window of {}; expected less than the window", pads[i],
                    windows.size[i / 2]));
    return false;
  }
  return true;
}

/// The windows of a pool over `input`. Reports what is wrong with them.
struct Pool {
  Windows windows;
  PlacedWindows placed;
};
std::optional<Pool> read_pool(CallSite& site, std::array<int64_t, 2> input,
                              const ir::Attributes& attributes, int dimensions) {
  const auto sizes = [&](std::string_view name) {
    return pair_of(site, name, attributes.get<Integers>(name), dimensions);
  };
  const auto size = sizes("ksize");
  if (!size) return {};  // strides may have their default from it
  const auto strides = sizes("strides");
  if (!strides) return {};
  const Windows windows{*size, *strides, {1, 1}};
  const auto placed =
      place_windows(site, input, windows, *attributes.find("padding"), names_of(dimensions));
  if (!placed || !pads_are_smaller(site, placed->padding, windows)) return {};
  if ((*size)[0] > std::numeric_limits<int32_t>::max() / (*size)[1]) {
    site.bad_attribute(
        "ksize", Diagnosis::kBadAttribute,
        fmt::format("a window of {} x {} has too many elements to count", (*size)[0], (*size)[1]));
    return {};
  }
  return Pool{windows, *placed};
}

Integers list_of(const std::array<int64_t, 2>& pair) { return {pair[0], pair[1]}; }

/// Normalises ksize, strides and padding; returns the shape of the pooled images.
std::optional<Shape> pooled(Inference& inference, const Shape& x) {
  const auto pool = read_pool(inference, {x[2], x[3]}, inference.attributes(), 2);
  if (!pool) return {};
  inference.normalise("ksize", list_of(pool->windows.size));
  inference.normalise("strides", list_of(pool->windows.strides));
  inference.normalise("padding", pool->placed.padding);
  return Shape{x[0], x[1], pool->placed.count[0], pool->placed.count[1]};
}

/// Offsets within a window are bytes where they fit.
DType offset_dtype(Inference& inference) {
  const Integers& size = inference.attribute<Integers>("ksize");
  return size[0] * size[1] <= 256 ? DType::kUInt8 : DType::kInt32;
}

void infer_max_pool2d(Inference& inference) {
  if (!has_rank(inference, 0, 4, "(N, C, H, W)")) return;
  const auto y = pooled(inference, inference.shape(0));
  if (!y) return;
  const int rows = rows_before(inference.operand(0).rows, 2);
  inference.result(inference.operand(0).dtype, *y, rows);
  inference.result(offset_dtype(inference), *y, rows);
}

void infer_avg_pool2d(Inference& inference) {
  if (!has_rank(inference, 0, 4, "(N, C, H, W)")) return;
  if (const auto y = pooled(inference, inference.shape(0)))
    inference.result(inference.operand(0).dtype, *y, rows_before(inference.operand(0).rows, 2));
}

/// The shape of x where operands 0 to `operands` - 1 have that of its pooled images.
std::optional<Shape> input_of_gradient(Inference& inference, size_t operands) {
  const auto x = four_extents(inference, "input_shape");
  if (!x) return {};
  const auto y = pooled(inference, *x);
  if (!y) return {};
  return have_shape(inference, 0, operands, *y) ? x : std::nullopt;
}

void infer_max_pool2d_grad(Inference& inference) {
  const auto x = input_of_gradient(inference, 2);
  if (!x) return;
  if (inference.operand(1).dtype != offset_dtype(inference))
    inference.bad_operand(
        1, Diagnosis::kDTypeMismatch,
        fmt::format("offsets in such windows are {}, not {}", name_of(offset_dtype(inference)),
                    name_of(inference.operand(1).dtype)));
  else
    inference.result(inference.operand(0).dtype, *x, rows_before(inference.operand(0).rows, 2));
}

void infer_avg_pool2d_grad(Inference& inference) {
  if (const auto x = input_of_gradient(inference, 1))
    inference.result(inference.operand(0).dtype, *x, rows_before(inference.operand(0).rows, 2));
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

std::vector<ir::ValueId> max_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "max_pool2d_grad", {context.gradient(), context.result(1)});
}

std::vector<ir::ValueId> avg_pool2d_gradient(GradientContext& context) {
  return pool_gradient(context, "avg_pool2d_grad", {context.gradient()});
}

/// [N, C, L] as images of height 1, pooled by `op`.
ir::ValueId expand_pool1d(LayerContext& context, std::string_view op) {
  CallSite site = context.site();
  if (!has_rank(site, 0, 3, "(N, C, L)")) return {};
  const auto pool = read_pool(site, {1, context.operand(0).shape[2]}, context.attributes, 1);
  if (!pool) return {};
  const ir::ValueId x = with_height(context, "expand", context.operands[0]);
  const ir::ValueId y = context.add(op, "pool", {x},
                                    {{"ksize", list_of(pool->windows.size)},
                                     {"strides", list_of(pool->windows.strides)},
                                     {"padding", pool->placed.padding}});
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
  Integers axes(static_cast<size_t>(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return context.add(
      "reduce_mean", "", {context.operands[0]},
      {{"axis", std::move(axes)}, {"keepdims", *context.attributes.find("keepdims")}});
}

std::vector<AttributeDef> window_attributes(int dimensions = 2) {
  return {sizes_attribute("ksize", "",
                          dimensions == 1 ? "window length"
                                          : "window height and width, or one number for both"),
          sizes_attribute("strides", "ksize", "step between windows, in elements"),
          padding_attribute(dimensions)};
}

std::vector<AttributeDef> pool_gradient_attributes() {
  std::vector<AttributeDef> attributes = window_attributes();
  attributes.push_back({.name = "input_shape",
                        .type = AttributeType::kIntegers,
                        .fallback = "",
                        .doc = "shape of x",
                        .min = 1});
  return attributes;
}

}  // namespace

std::span<const OpDef> pool() {
  static const OpDef kOps[] = {
      {
          .name = "max_pool1d",
          .doc = "1D max pooling; on ties, the first element receives the gradient.",
          .formula = "y[n, c, i] = max x[n, c, i s + u - pad]",
          .operands = {{"in", "(N, C, L)"}},
          .attributes = window_attributes(1),
          .expand = expand_max_pool1d,
      },
      {
          .name = "max_pool2d",
          .doc = "2D max pooling; on ties, the first element receives the gradient.",
          .formula = "y[n, c, i, j] = max x[n, c, i s + u - pad, j s + v - pad]",
          .operands = {{"in", "(N, C, H, W)"}},
          .attributes = window_attributes(),
          .results = {"out", "argmax"},
          .infer = infer_max_pool2d,
          .gradient = max_pool2d_gradient,
          .examples = {"max_pool2d(f32[2,3,6,6]) ksize=2",
                       "max_pool2d(f32[2,3,7,5]) ksize=2 "
                       "strides=2 padding=same",
                       "max_pool2d(f32[1,2,7,8]) ksize=[3,2] strides=1",
                       "max_pool2d(f32[1,1,8,8]) ksize=3 strides=2 padding=[1,0,1,1]",
                       "max_pool2d(f32[1,1,40,40]) ksize=17 strides=8"},
      },
      {
          .name = "avg_pool1d",
          .doc = "1D average pooling; the mean excludes the padding.",
          .formula = "y[n, c, i] = mean x[n, c, i s + u - pad]",
          .operands = {{"in", "(N, C, L)"}},
          .attributes = window_attributes(1),
          .expand = expand_avg_pool1d,
      },
      {
          .name = "avg_pool2d",
          .doc = "2D average pooling; the mean excludes the padding.",
          .formula = "y[n, c, i, j] = mean x[n, c, i s + u - pad, j s + v - pad]",
          .operands = {{"in", "(N, C, H, W)"}},
          .attributes = window_attributes(),
          .infer = infer_avg_pool2d,
          .gradient = avg_pool2d_gradient,
          .examples = {"avg_pool2d(f32[2,3,6,6]) ksize=2",
                       "avg_pool2d(f32[2,3,7,5]) ksize=2 strides=2 padding=same",
                       "avg_pool2d(f32[1,2,7,8]) ksize=[3,2] strides=1",
                       "avg_pool2d(f32[1,1,8,8]) ksize=3 strides=2 padding=[1,0,1,1]"},
      },
      {
          .name = "global_avg_pool",
          .doc = "Global average pooling: the mean of each channel.",
          .formula = "y[n, c] = mean x[n, c, ...]",
          .operands = {{"in", "(N, C, ...)"}},
          .attributes = {{"keepdims", AttributeType::kBool, "false",
                          "keep the reduced axes with size 1"}},
          .expand = expand_global_avg_pool,
      },
      {
          .name = "avg_pool2d_grad",
          .doc = "Gradient of avg_pool2d: spreads each element of dy over its window.",
          .formula = "dx[i] = sum dy[j] / count[j] over the windows j that contain i",
          .operands = {{"dy", "(N, C, H', W')"}},
          .attributes = pool_gradient_attributes(),
          .infer = infer_avg_pool2d_grad,
          .internal = true,
          .examples = {"avg_pool2d_grad(f32[2,3,3,3]) ksize=2 input_shape=[2,3,6,6]"},
      },
      {
          .name = "max_pool2d_grad",
          .doc = "Gradient of max_pool2d: adds each element of dy to the maximum of its window.",
          .formula = "dx[argmax[i]] += dy[i]",
          .operands = {{"dy", "(N, C, H', W')"},
                       {"argmax", "offsets within windows, from max_pool2d", Accepts::kInteger}},
          .attributes = pool_gradient_attributes(),
          .infer = infer_max_pool2d_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
