// Pooling over images, and over lengths, which are images of height 1.
#include "ops/pool.h"

#include <fmt/format.h>

#include <limits>

#include "ops/axes.h"
#include "ops/families.h"

namespace flow::ops {
namespace {

WindowNames pool_names(int dimensions) { return {"ksize", "window", dimensions}; }

/// Every window must hold an element of the input: a maximum of padding alone is none.
bool pads_are_smaller(Call& call, const std::vector<int64_t>& pads, const Windows& windows) {
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < windows.size[i / 2]) continue;
    call.bad_attribute(
        "padding", Reason::kBadAttribute,
        fmt::format("the padding is {} for a window of {}; expected less than the window", pads[i],
                    windows.size[i / 2]));
    return false;
  }
  return true;
}

/// A pool, or the gradient of one, over images of shape `x`, that makes `y`.
struct PooledImages {
  Shape x, y;
  Pool pool;
};

/// REQUIRES: `x` is of rank 4.
std::optional<PooledImages> pooled_images(Call& call, const Shape& x) {
  const auto pool = read_pool(call, {x[2], x[3]}, 2);
  if (!pool) return {};
  return PooledImages{x, {x[0], x[1], pool->placed.count[0], pool->placed.count[1]}, *pool};
}

std::optional<PooledImages> read_pool2d(Call& call) {
  if (!has_rank(call, 0, 4, "(N, C, H, W)")) return {};
  return pooled_images(call, call.shape(0));
}

std::optional<PooledImages> read_pool2d_grad(Call& call) {
  const auto x = four_extents(call, "input_shape");
  if (!x) return {};
  return pooled_images(call, *x);
}

void set_pool(Attributes& attributes, const std::optional<PooledImages>& of) {
  if (!of) return;
  attributes.set("ksize", of->pool.size());
  attributes.set("strides", of->pool.strides());
  attributes.set("padding", of->pool.placed.padding);
}

void normalise_pool(Call& call, Attributes& attributes) { set_pool(attributes, read_pool2d(call)); }

void normalise_pool_grad(Call& call, Attributes& attributes) {
  set_pool(attributes, read_pool2d_grad(call));
}

/// Offsets within a window are bytes where they fit.
DType offset_dtype(const Pool& pool) {
  const auto& size = pool.windows.size;
  return size[0] * size[1] <= 256 ? DType::kUInt8 : DType::kInt32;
}

void infer_max_pool2d(Call& call) {
  const auto of = read_pool2d(call);
  if (!of) return;
  const int batch_axis = batch_before(call.operand(0).batch_axis, 2);
  call.result(call.dtype(0), of->y, batch_axis);
  call.result(offset_dtype(of->pool), of->y, batch_axis);
}

void infer_avg_pool2d(Call& call) {
  if (const auto of = read_pool2d(call))
    call.result(call.dtype(0), of->y, batch_before(call.operand(0).batch_axis, 2));
}

void infer_max_pool2d_grad(Call& call) {
  const auto of = read_pool2d_grad(call);
  if (!of || !call.have_shape(0, 2, of->y)) return;
  const DType offsets = offset_dtype(of->pool);
  if (call.dtype(1) != offsets)
    call.bad_operand(1, Reason::kDTypeMismatch,
                     fmt::format("offsets in such windows are {}, not {}", name_of(offsets),
                                 name_of(call.dtype(1))));
  else
    call.result(call.dtype(0), of->x, batch_before(call.operand(0).batch_axis, 2));
}

void infer_avg_pool2d_grad(Call& call) {
  const auto of = read_pool2d_grad(call);
  if (of && call.have_shape(0, 1, of->y))
    call.result(call.dtype(0), of->x, batch_before(call.operand(0).batch_axis, 2));
}

std::vector<AttributeSpec> pool_attributes(int dimensions = 2) {
  return {sizes_attribute("ksize", "",
                          dimensions == 1 ? "window length"
                                          : "window height and width, or one number for both"),
          sizes_attribute("strides", "ksize", "step between windows, in elements"),
          padding_attribute(dimensions)};
}

std::vector<AttributeSpec> pool_gradient_attributes() {
  std::vector<AttributeSpec> attributes = pool_attributes();
  attributes.push_back({.name = "input_shape",
                        .type = AttributeType::kIntegers,
                        .fallback = "",
                        .doc = "shape of x",
                        .min = 1});
  return attributes;
}

}  // namespace

std::optional<Pool> read_pool(Call& call, std::array<int64_t, 2> input, int dimensions) {
  const auto sizes = [&](std::string_view name) {
    return pair_of(call, name, call.integers(name), dimensions);
  };
  const auto size = sizes("ksize");
  if (!size) return {};  // strides may have their default from it
  const auto strides = sizes("strides");
  if (!strides) return {};
  const Windows windows{*size, *strides, {1, 1}};
  const auto placed =
      place_windows(call, input, windows, call.attribute("padding"), pool_names(dimensions));
  if (!placed || !pads_are_smaller(call, placed->padding, windows)) return {};
  if ((*size)[0] > std::numeric_limits<int32_t>::max() / (*size)[1]) {
    call.bad_attribute(
        "ksize", Reason::kBadAttribute,
        fmt::format("a window of {} x {} has too many elements to count", (*size)[0], (*size)[1]));
    return {};
  }
  return Pool{windows, *placed};
}

std::span<const OpSpec> pool() {
  static const OpSpec kOps[] = {
      {
          .name = "max_pool1d",
          .doc = "1D max pooling; on ties, the first element receives the gradient.",
          .formula = "y[n, c, i] = max x[n, c, i s + u - pad]",
          .operands = {{"in", "(N, C, L)"}},
          .attributes = pool_attributes(1),
      },
      {
          .name = "max_pool2d",
          .doc = "2D max pooling; on ties, the first element receives the gradient.",
          .formula = "y[n, c, i, j] = max x[n, c, i s + u - pad, j s + v - pad]",
          .operands = {{.name = "in", .doc = "(N, C, H, W)", .low_precision = true}},
          .attributes = pool_attributes(),
          .plan_attributes = {{"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .results = {{"out"}, {.name = "argmax", .optional = true}},
          .normalise = normalise_pool,
          .infer = infer_max_pool2d,
          .examples = {"max_pool2d(f32[2,3,6,6]) ksize=2",
                       "max_pool2d(f32[2,3,7,5]) ksize=2 strides=2 padding=same",
                       "max_pool2d(f32[1,2,7,8]) ksize=[3,2] strides=1",
                       "max_pool2d(f32[1,1,8,8]) ksize=3 strides=2 padding=[1,0,1,1]",
                       "max_pool2d(f32[1,1,40,40]) ksize=17 strides=8"},
      },
      {
          .name = "avg_pool1d",
          .doc = "1D average pooling; the mean excludes the padding.",
          .formula = "y[n, c, i] = mean x[n, c, i s + u - pad]",
          .operands = {{"in", "(N, C, L)"}},
          .attributes = pool_attributes(1),
      },
      {
          .name = "avg_pool2d",
          .doc = "2D average pooling; the mean excludes the padding.",
          .formula = "y[n, c, i, j] = mean x[n, c, i s + u - pad, j s + v - pad]",
          .operands = {{"in", "(N, C, H, W)"}},
          .attributes = pool_attributes(),
          .plan_attributes = {{"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .normalise = normalise_pool,
          .infer = infer_avg_pool2d,
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
      },
      {
          .name = "avg_pool2d_grad",
          .doc = "Gradient of avg_pool2d: spreads each element of dy over its window.",
          .formula = "dx[i] = sum dy[j] / count[j] over the windows j that contain i",
          .operands = {{"dy", "(N, C, H', W')"}},
          .attributes = pool_gradient_attributes(),
          .plan_attributes = {{"input_shape", Kind::kShape},
                              {"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .normalise = normalise_pool_grad,
          .infer = infer_avg_pool2d_grad,
          .internal = true,
          .examples = {"avg_pool2d_grad(f32[2,3,3,3]) ksize=2 input_shape=[2,3,6,6]"},
      },
      {
          .name = "max_pool2d_grad",
          .doc = "Gradient of max_pool2d: adds each element of dy to the maximum of its window.",
          .formula = "dx[argmax[i]] += dy[i]",
          .operands = {{.name = "dy", .doc = "(N, C, H', W')", .low_precision = true},
                       {"argmax", "offsets within windows, from max_pool2d", Accepts::kInteger}},
          .attributes = pool_gradient_attributes(),
          .plan_attributes = {{"input_shape", Kind::kShape},
                              {"ksize", Kind::kSizes},
                              {"padding", Kind::kPads},
                              {"strides", Kind::kSizes}},
          .normalise = normalise_pool_grad,
          .infer = infer_max_pool2d_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::ops
