// Pooling over images.
#include <fmt/format.h>

#include <limits>

#include "compiler/ir/builder.h"
#include "compiler/ops/families.h"
#include "compiler/ops/windows.h"

namespace flow::ops {
namespace {

using ir::kMixedRows;
using ir::kNoRows;
using Integers = std::vector<int64_t>;

constexpr WindowNames kNames = {"ksize", "padding", "window"};

/// Every window must hold an element of the input: a maximum of padding alone is none.
bool pads_are_smaller(CallSite& site, const Integers& pads, const Windows& windows) {
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < windows.size[i / 2]) continue;
    site.bad_attribute("padding", Diagnosis::kBadAttribute,
                       fmt::format("padding {} does not fit a window of {}, it must be less",
                                   pads[i], windows.size[i / 2]));
    return false;
  }
  return true;
}

/// Normalises ksize, strides and padding; returns the shape of the pooled images.
std::optional<Shape> pooled(Inference& inference, const Shape& x) {
  const auto size = pair_of(inference, "ksize", inference.attribute<Integers>("ksize"));
  const auto strides = pair_of(inference, "strides", inference.attribute<Integers>("strides"));
  if (!size || !strides) return {};
  const Windows windows{*size, *strides, {1, 1}};
  const auto placed =
      place_windows(inference, {x[2], x[3]}, windows, inference.attribute("padding"), kNames);
  if (!placed || !pads_are_smaller(inference, placed->padding, windows)) return {};
  if ((*size)[0] > std::numeric_limits<int32_t>::max() / (*size)[1]) {
    inference.bad_attribute(
        "ksize", Diagnosis::kBadAttribute,
        fmt::format("a window of {} x {} has too many elements to count", (*size)[0], (*size)[1]));
    return {};
  }
  inference.normalise("ksize", Integers(size->begin(), size->end()));
  inference.normalise("strides", Integers(strides->begin(), strides->end()));
  inference.normalise("padding", placed->padding);
  return Shape{x[0], x[1], placed->count[0], placed->count[1]};
}

/// Offsets within a window are bytes where they fit.
DType offset_dtype(Inference& inference) {
  const Integers& size = inference.attribute<Integers>("ksize");
  return size[0] * size[1] <= 256 ? DType::kUInt8 : DType::kInt32;
}

/// Rows may lie along images or channels; windows mix those along height or width.
int rows_of_pooled(int rows) { return rows < 2 ? rows : kMixedRows; }

void infer_max_pool2d(Inference& inference) {
  if (!has_rank(inference, 0, 4, "[N, C, H, W]")) return;
  const auto y = pooled(inference, inference.shape(0));
  if (!y) return;
  const int rows = rows_of_pooled(inference.operand(0).rows);
  inference.result(inference.operand(0).dtype, *y, rows);
  inference.result(offset_dtype(inference), *y, rows);
}

void infer_max_pool2d_grad(Inference& inference) {
  const Shape x(inference.attribute<Integers>("input_shape"));
  if (x.rank() != 4) {
    inference.bad_attribute("input_shape", Diagnosis::kBadAttribute,
                            fmt::format("`input_shape` has {} extents, it must have 4", x.rank()));
    return;
  }
  const auto y = pooled(inference, x);
  if (!y) return;
  for (size_t i = 0; i < 2; ++i)
    if (inference.shape(i) != *y)
      inference.bad_operand(
          i, Diagnosis::kShapeMismatch,
          fmt::format("{} is not the result's shape {}", inference.shape(i).str(), y->str()));
  if (inference.operand(1).dtype != offset_dtype(inference))
    inference.bad_operand(
        1, Diagnosis::kDTypeMismatch,
        fmt::format("offsets in such windows are {}, not {}", name_of(offset_dtype(inference)),
                    name_of(inference.operand(1).dtype)));
  if (!inference.failed())
    inference.result(inference.operand(0).dtype, x, rows_of_pooled(inference.operand(0).rows));
}

std::vector<ir::ValueId> max_pool2d_gradient(GradientContext& context) {
  const ir::Attributes& forward = context.node.attributes;
  const Shape x = context.value_of(context.operand(0)).shape;
  return {context.add("max_pool2d_grad", 0, {context.gradient(), context.result(1)},
                      {{"ksize", *forward.find("ksize")},
                       {"strides", *forward.find("strides")},
                       {"padding", *forward.find("padding")},
                       {"input_shape", x.extents()}})};
}

std::vector<AttributeDef> window_attributes() {
  return {{.name = "ksize",
           .type = AttributeType::kIntegers,
           .fallback = "",
           .doc = "height and width of the window, or one number",
           .min = 1,
           .max = kMaxWindow},
          {.name = "strides",
           .type = AttributeType::kIntegers,
           .fallback = "ksize",
           .doc = "steps between windows",
           .min = 1,
           .max = kMaxWindow},
          {"padding", AttributeType::kPadding, "valid",
           "valid, same (the odd pixel at the bottom and right), same_lower, or pads: 1, [1, 1], "
           "[[top, bottom], [left, right]]"}};
}

std::vector<AttributeDef> gradient_attributes() {
  std::vector<AttributeDef> attributes = window_attributes();
  attributes.push_back({.name = "input_shape",
                        .type = AttributeType::kIntegers,
                        .fallback = "",
                        .doc = "the shape of x",
                        .min = 1});
  return attributes;
}

}  // namespace

std::span<const OpDef> pool() {
  static const OpDef kOps[] = {
      {
          .name = "max_pool2d",
          .doc = "The maximum of each window of an image; on a tie the first takes the gradient.",
          .formula = "y[n, c, i, j] = max x[n, c, i s + u - pad, j s + v - pad]",
          .operands = {{"in", "[N, C, H, W]"}},
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
          .name = "max_pool2d_grad",
          .doc = "The gradient of max_pool2d: each element of dy goes to its window's maximum.",
          .formula = "dx[argmax[i]] += dy[i]",
          .operands = {{"dy", "[N, C, H', W']"},
                       {"argmax", "offsets within windows, as max_pool2d makes them",
                        Accepts::kInteger}},
          .attributes = gradient_attributes(),
          .infer = infer_max_pool2d_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::ops
