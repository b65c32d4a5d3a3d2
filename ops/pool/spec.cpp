// The records of pools: maxima and means over windows of images, of sequences, which are images of
// height 1, and of volumes; and over whole images.
#include "ops/pool/pool.h"

#include <limits>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Returns true if the pads are smaller than the windows; otherwise reports an error. Every window
/// then contains an element of the input: padding by itself has no maximum.
bool pads_are_smaller(Call& call, const AxisWindows& along) {
  for (const int64_t pad : along.pads)
    if (pad >= along.size) {
      call.bad_attribute(
          "padding", Reason::kBadAttribute,
          fmt::format("the padding is {} for a window of {}; expected less than the window", pad,
                      along.size));
      return false;
    }
  return true;
}

/// Returns the pool over `x`, or nothing after an error. REQUIRES: `x` has rank 4.
std::optional<PooledImages> pooled_images(Call& call, const Shape& x) {
  const auto windows = read_pool(call, x);
  if (!windows) return {};
  return PooledImages{x, {x[0], x[1], (*windows)[0].count, (*windows)[1].count}, *windows};
}

void normalize_pool(Call& call, Attributes& attributes) {
  if (const auto of = read_pool2d(call)) set_pool(attributes, of->windows);
}

void normalize_pool_grad(Call& call, Attributes& attributes) {
  if (const auto of = read_pool2d_grad(call)) set_pool(attributes, of->windows);
}

/// Returns the dtype of offsets within a window: bytes if all offsets fit.
DType offset_dtype(const Windows& windows) {
  return windows[0].size * windows[1].size <= 256 ? DType::kUInt8 : DType::kInt32;
}

void infer_max_pool2d(Call& call) {
  const auto of = read_pool2d(call);
  if (!of) return;
  const int batch_axis = batch_before(call.operand(0).batch_axis, 2);
  call.result(call.dtype(0), of->y, batch_axis);
  call.result(offset_dtype(of->windows), of->y, batch_axis);
}

void infer_max_pool2d_grad(Call& call) {
  const auto of = read_pool2d_grad(call);
  if (!of || !call.have_shape(0, 2, of->y)) return;
  const DType offsets = offset_dtype(of->windows);
  const int batch_axis = common_batch(call.operand(0).batch_axis, call.operand(1).batch_axis);
  if (call.dtype(1) != offsets)
    call.bad_operand(1, Reason::kDTypeMismatch,
                     fmt::format("offsets in such windows are {}, not {}", name_of(offsets),
                                 name_of(call.dtype(1))));
  else
    call.result(call.dtype(0), of->x, batch_before(batch_axis, 2));
}

int64_t places_of_window(std::span<const Shape>, const Attributes& attributes) {
  const auto& size = attributes.get<std::vector<int64_t>>("ksize");
  return size[0] * size[1];
}

/// Returns true if windows do not overlap. If they overlap, the gradients of an element in several
/// windows are added.
bool windows_are_disjoint(const Attributes& attributes) {
  const auto& size = attributes.get<std::vector<int64_t>>("ksize");
  const auto& strides = attributes.get<std::vector<int64_t>>("strides");
  return size[0] <= strides[0] && size[1] <= strides[1];
}

bool is_pool_of(const Attributes& gradient, const Attributes& pool, const Shape& x) {
  const auto same = [&](std::string_view name) { return *pool.find(name) == *gradient.find(name); };
  return same("ksize") && same("padding") && same("strides") &&
         x.extents() == gradient.get<std::vector<int64_t>>("input_shape");
}

void infer_avg_pool2d(Call& call) {
  if (const auto of = read_pool2d(call))
    call.result(call.dtype(0), of->y, batch_before(call.operand(0).batch_axis, 2));
}

void infer_avg_pool2d_grad(Call& call) {
  const auto of = read_pool2d_grad(call);
  if (of && call.have_shape(0, 1, of->y))
    call.result(call.dtype(0), of->x, batch_before(call.operand(0).batch_axis, 2));
}

}  // namespace

std::optional<Windows> read_pool(Call& call, const Shape& x) {
  const WindowNames names{
      .size = "ksize", .what = "window", .dilation = "", .dimensions = x.rank() - 2};
  auto windows = read_windows(call, names);
  if (!windows || !place_windows(call, x.from(2).extents(), names, *windows)) return {};
  for (const AxisWindows& along : *windows)
    if (!pads_are_smaller(call, along)) return {};
  const int64_t high = windows->front().size, wide = windows->back().size;
  if (windows->size() == 2 && high > std::numeric_limits<int32_t>::max() / wide) {
    call.bad_attribute(
        "ksize", Reason::kBadAttribute,
        fmt::format("a window of {} x {} has too many elements to count", high, wide));
    return {};
  }
  return windows;
}

void set_pool(Attributes& attributes, const Windows& windows) {
  attributes.set("ksize", each_of(windows, &AxisWindows::size));
  attributes.set("strides", each_of(windows, &AxisWindows::stride));
  attributes.set("padding", pads_of(windows));
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

std::vector<AttributeSpec> pool_attributes(int dimensions) {
  return {sizes_attribute("ksize", "",
                          dimensions == 3 ? "window depth, height and width, or one number for all"
                          : dimensions == 1 ? "window length"
                                            : "window height and width, or one number for both"),
          sizes_attribute("strides", "ksize", "step between windows, in elements"),
          padding_attribute(dimensions)};
}

std::vector<AttributeSpec> pool_gradient_attributes() {
  std::vector<AttributeSpec> attributes = pool_attributes();
  attributes.push_back(input_shape_attribute());
  return attributes;
}

std::vector<OpSpec> pool() {
  return {
      {.name = "max_pool1d",
       .doc = "1D max pooling; on ties, the first element receives the gradient.",
       .formula = "y[n, c, i] = max x[n, c, i s + u - pad]",
       .operands = {{"in", "(N, C, L)"}},
       .attributes = pool_attributes(1)},
      {.name = "max_pool3d",
       .doc = "3D max pooling; on ties, the first element receives the gradient.",
       .formula = "y[n, c, i, j, k] = max x[n, c, i s + u - pad, j s + v - pad, k s + w - pad]",
       .operands = {{"in", "(N, C, D, H, W)"}},
       .attributes = pool_attributes(3),
       .numpy = "pooled(x, ksize, strides, padding, np.nanmax)",
       .examples = {"max_pool3d(f32[2,3,4,6,5]) ksize=2",
                    "max_pool3d(f32[1,2,5,4,5]) ksize=3 strides=[2,1,2] padding=same",
                    "max_pool3d(f32[1,2,4,4,5]) ksize=[1,2,3] strides=1 padding=[0,0,1,0,1,2]",
                    "max_pool3d(f32[1,2,5,3,3]) ksize=[2,1,1] strides=[3,1,1]"}},
      {.name = "global_max_pool",
       .doc = "Global max pooling: the maximum of each channel.",
       .formula = "y[n, c] = max x[n, c, ...]",
       .operands = {{"in", "(N, C, ...)"}},
       .attributes = {{"keepdims", AttributeType::kBool, "false",
                       "keep the reduced axes with size 1"}},
       .numpy = "np.max(x, tuple(range(2, x.ndim)), keepdims=keepdims)",
       .examples = {"global_max_pool(f32[2,3,4,5])", "global_max_pool(f32[2,3,4]) keepdims=true"}},
      {.name = "max_pool2d",
       .doc = "2D max pooling; on ties, the first element receives the gradient.",
       .formula = "y[n, c, i, j] = max x[n, c, i s + u - pad, j s + v - pad]",
       .operands = {{.name = "in",
                     .doc = "(N, C, H, W)",
                     .low_precision = true,
                     .images = Images::kActivations}},
       .attributes = pool_attributes(),
       .results = {{.name = "out", .images = Images::kActivations},
                   {.name = "argmax", .optional = true, .images = Images::kActivations}},
       .normalize = normalize_pool,
       .infer = infer_max_pool2d,
       .rounds_operands = rounds_always,
       .flops = {.windows = true},
       .examples = {"max_pool2d(f32[2,3,6,6]) ksize=2",
                    "max_pool2d(f32[2,3,7,5]) ksize=2 strides=2 padding=same",
                    "max_pool2d(f32[1,2,7,8]) ksize=[3,2] strides=1",
                    "max_pool2d(f32[1,1,8,8]) ksize=3 strides=2 padding=[1,0,1,1]",
                    "max_pool2d(f32[1,1,40,40]) ksize=17 strides=8"}},
      {.name = "max_pool2d_grad",
       .doc = "Gradient of max_pool2d: adds each element of dy to the maximum of its window.",
       .formula = "dx[argmax[i]] += dy[i]",
       .operands = {{.name = "dy",
                     .doc = "(N, C, H', W')",
                     .low_precision = true,
                     .images = Images::kActivations},
                    {.name = "argmax",
                     .doc = "offsets within windows, from max_pool2d",
                     .accepts = Accepts::kInteger,
                     .images = Images::kActivations,
                     .limit = places_of_window}},
       .attributes = pool_gradient_attributes(),
       .plan_attributes = {extents_of_result("input_shape")},
       .results = {{.name = "out", .images = Images::kActivations}},
       .normalize = normalize_pool_grad,
       .infer = infer_max_pool2d_grad,
       .linear = {0},
       .rounds_operands = windows_are_disjoint,
       .origin = Origin{.operand = 1,
                        .op = "max_pool2d",
                        .matches = is_pool_of,
                        .expected = "the matching max_pool2d"},
       .flops = {1, Flops::Each::kFirst},
       .internal = true},
      {.name = "avg_pool1d",
       .doc = "1D average pooling; the mean excludes the padding.",
       .formula = "y[n, c, i] = mean x[n, c, i s + u - pad]",
       .operands = {{"in", "(N, C, L)"}},
       .attributes = pool_attributes(1)},
      {.name = "avg_pool3d",
       .doc = "3D average pooling; the mean excludes the padding.",
       .formula = "y[n, c, i, j, k] = mean x[n, c, i s + u - pad, j s + v - pad, k s + w - pad]",
       .operands = {{"in", "(N, C, D, H, W)"}},
       .attributes = pool_attributes(3),
       .numpy = "pooled(x, ksize, strides, padding, np.nanmean)",
       .examples = {"avg_pool3d(f32[2,3,4,6,5]) ksize=2",
                    "avg_pool3d(f32[1,2,5,4,5]) ksize=3 strides=[2,1,2] padding=same",
                    "avg_pool3d(f32[1,2,4,4,5]) ksize=[1,2,3] strides=1 padding=[0,0,1,0,1,2]"}},
      {.name = "adaptive_avg_pool",
       .doc = "Averages over as many windows as the result has elements, nearly equal in size; "
              "neighbors may share elements.",
       .formula = "y[n, c, i, ...] = mean x[n, c, floor(i H / h) : ceil((i + 1) H / h), ...]",
       .operands = {{"in", "(N, C, ...)"}},
       .attributes = {sizes_attribute("output_size", "",
                                      "sizes of the result after the channels, or one number "
                                      "for all")},
       .numpy = "averaged(x, output_size)",
       .examples = {"adaptive_avg_pool(f32[2,3,6,4]) output_size=[3,2]",
                    "adaptive_avg_pool(f32[2,3,7,5]) output_size=[3,2]",
                    "adaptive_avg_pool(f32[1,2,10]) output_size=4",
                    "adaptive_avg_pool(f32[1,2,3,4]) output_size=6"}},
      {.name = "avg_pool2d",
       .doc = "2D average pooling; the mean excludes the padding.",
       .formula = "y[n, c, i, j] = mean x[n, c, i s + u - pad, j s + v - pad]",
       .operands = {{.name = "in", .doc = "(N, C, H, W)", .images = Images::kActivations}},
       .attributes = pool_attributes(),
       .results = {{.name = "out", .images = Images::kActivations}},
       .normalize = normalize_pool,
       .infer = infer_avg_pool2d,
       .linear = {0},
       .flops = {.windows = true},
       .examples = {"avg_pool2d(f32[2,3,6,6]) ksize=2",
                    "avg_pool2d(f32[2,3,7,5]) ksize=2 strides=2 padding=same",
                    "avg_pool2d(f32[1,2,7,8]) ksize=[3,2] strides=1",
                    "avg_pool2d(f32[1,1,8,8]) ksize=3 strides=2 padding=[1,0,1,1]"}},
      {.name = "global_avg_pool",
       .doc = "Global average pooling: the mean of each channel.",
       .formula = "y[n, c] = mean x[n, c, ...]",
       .operands = {{"in", "(N, C, ...)"}},
       .attributes = {{"keepdims", AttributeType::kBool, "false",
                       "keep the reduced axes with size 1"}}},
      {.name = "avg_pool2d_grad",
       .doc = "Gradient of avg_pool2d: spreads each element of dy over its window.",
       .formula = "dx[i] = sum dy[j] / count[j] over the windows j that contain i",
       .operands = {{.name = "dy", .doc = "(N, C, H', W')", .images = Images::kActivations}},
       .attributes = pool_gradient_attributes(),
       .plan_attributes = {extents_of_result("input_shape")},
       .results = {{.name = "out", .images = Images::kActivations}},
       .normalize = normalize_pool_grad,
       .infer = infer_avg_pool2d_grad,
       .linear = {0},
       .flops = {.each = Flops::Each::kFirst, .windows = true},
       .internal = true,
       .examples = {"avg_pool2d_grad(f32[2,3,3,3]) ksize=2 input_shape=[2,3,6,6]"}},
  };
}

}  // namespace flow::ops
