// Fully connected layers as a product, a bias and an activation; and convolution layers as
// primitives: over lengths, images and volumes, and transposed ones.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/grad/layers.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/initializers.h"
#include "compiler/ir/rules.h"
#include "ops/core/windows.h"

namespace flow::grad {
namespace {

/// [..., in] as [rows, in]: one product instead of one for each leading index.
ir::ValueId flattened(const LayerContext& context, ir::ValueId x, const Shape& shape) {
  if (shape.rank() == 2) return x;
  const int last = shape.rank() - 1;
  return context.add("reshape", "flatten", {x},
                     {{"shape", std::vector<int64_t>{shape.elements(0, last), shape[last]}}});
}

/// What was made of flattened rows, activated, in the operand's shape but for its last extent.
ir::ValueId restored(const LayerContext& context, ir::ValueId y, const Shape& shape,
                     int64_t units) {
  if (shape.rank() == 2) return context.activate(y);
  std::vector<int64_t> extents = shape.extents();
  extents.back() = units;
  return activate_and_restore(context, y, [&](ir::ValueId rows) {
    return context.add("reshape", "restore", {rows}, {{"shape", extents}});
  });
}

ir::ValueId expand_dense(LayerContext& context) {
  const Shape shape = context.operand(0).shape;
  const DType dtype = context.operand(0).dtype;
  if (shape.rank() < 2) {
    context.site().bad_operand(
        0, Diagnosis::kRankMismatch,
        fmt::format("{} has fewer than 2 dimensions; expected (batch, ..., features)",
                    shape.str()));
    return {};
  }
  const int64_t in = shape[shape.rank() - 1];
  const int64_t units = context.attributes.get<int64_t>("units");
  const Shape weight_shape{units, in};
  const ir::ValueId weight = context.add_variable("weight", "kernel_initializer", dtype,
                                                  weight_shape, fans_of(weight_shape));
  const ir::ValueId x = flattened(context, context.operands[0], shape);
  ir::ValueId y = context.add("matmul", "matmul", {x, weight}, {{"transpose_b", true}});
  if (context.attributes.get<bool>("use_bias")) {
    const ir::ValueId bias =
        context.add_variable("bias", "bias_initializer", dtype, {units}, fans_of(weight_shape));
    y = context.add("bias_add", "bias_add", {y, bias}, {{"axis", int64_t{1}}});
  }
  return restored(context, y, shape, units);
}

using ir::ValueId;
using Integers = std::vector<int64_t>;

/// What the file says of a layer, over images: a length is the width of an image of height 1.
struct ConvLayer {
  int dimensions = 2;
  int64_t channels = 0, filters = 0, groups = 1;
  std::array<int64_t, 2> input{};  // height, width
  ops::Windows windows{};
  Integers padding{};  // of the convolution, or of the one whose gradient a transposed one is
  std::array<int64_t, 2> output{};  // height, width of what a transposed one makes
};

/// The layer but for its padding. Reports what is wrong with it.
std::optional<ConvLayer> read_conv(ops::Call& call, int dimensions) {
  if (!ops::has_rank(call, 0, dimensions + 2, dimensions == 1 ? "(N, C, L)" : "(N, C, H, W)"))
    return {};
  const Shape& x = call.shape(0);
  const auto sizes = [&](std::string_view name) {
    return ops::pair_of(call, name, call.integers(name), dimensions);
  };
  const auto size = sizes("kernel_size"), strides = sizes("strides"),
             dilation = sizes("dilation_rate");
  ConvLayer layer{.dimensions = dimensions,
                  .channels = x[1],
                  .filters = call.attribute<int64_t>("filters"),
                  .groups = call.attribute<int64_t>("groups"),
                  .input = {dimensions == 1 ? 1 : x[2], x[x.rank() - 1]}};
  if (!size || !strides || !dilation ||
      !ops::groups_fit(call, layer.channels, layer.filters, layer.groups))
    return {};
  layer.windows = {*size, *strides, *dilation};
  return layer;
}

/// The layer with what `place` fills in: the padding, and the output where it needs it. Reports
/// what is wrong with it.
std::optional<ConvLayer> read_placed_conv(const LayerContext& context, int dimensions,
                                          void (*place)(ops::Call&, ConvLayer&)) {
  ops::Call call = context.call();
  auto layer = read_conv(call, dimensions);
  if (layer) place(call, *layer);
  if (context.report(call)) return {};
  return layer;
}

void place_conv(ops::Call& call, ConvLayer& layer) {
  const auto placed =
      ops::place_windows(call, layer.input, layer.windows, call.attribute("padding"),
                         {.dimensions = layer.dimensions});
  if (placed) layer.padding = placed->padding;
}

ir::Attributes conv_attributes(const ConvLayer& layer) {
  const ops::Windows& windows = layer.windows;
  return {{"strides", Integers(windows.strides.begin(), windows.strides.end())},
          {"dilation", Integers(windows.dilation.begin(), windows.dilation.end())},
          {"padding", layer.padding},
          {"groups", layer.groups}};
}

/// The variable `weight`: [out, in / groups, the window's sizes].
ValueId add_conv_weight(const LayerContext& context, const ConvLayer& layer, int64_t out,
                        int64_t in, bool transposed) {
  const auto& size = layer.windows.size;
  Integers extents = {out, in / layer.groups, size[0], size[1]};
  if (layer.dimensions == 1) extents.erase(extents.begin() + 2);
  const Shape shape(extents);
  const Fans fans = fans_of(shape);
  return context.add_variable("weight", "kernel_initializer", context.operand(0).dtype, shape,
                              transposed ? Fans{fans.out, fans.in} : fans);
}

/// bias_add, where the layer has a bias.
ValueId with_conv_bias(const LayerContext& context, int64_t filters, ValueId y, ValueId weight) {
  if (!y.valid() || !context.attributes.get<bool>("use_bias")) return y;
  const ValueId bias =
      context.add_variable("bias", "bias_initializer", context.operand(0).dtype, {filters},
                           fans_of(context.builder.graph()[weight].shape));
  return context.add("bias_add", "bias_add", {y, bias}, {});
}

ValueId expand_conv2d(LayerContext& context) {
  const auto layer = read_placed_conv(context, 2, place_conv);
  if (!layer) return {};
  const ValueId weight = add_conv_weight(context, *layer, layer->filters, layer->channels, false);
  const ValueId y =
      context.add("convolution", "conv", {context.operands[0], weight}, conv_attributes(*layer));
  return context.activate(with_conv_bias(context, layer->filters, y, weight));
}

ValueId expand_conv1d(LayerContext& context) {
  const auto layer = read_placed_conv(context, 1, place_conv);
  if (!layer) return {};
  const ValueId weight = add_conv_weight(context, *layer, layer->filters, layer->channels, false);
  const ValueId x = with_height(context, "expand", context.operands[0]);
  const ValueId kernel = with_height(context, "expand_weight", weight);
  ValueId y = context.add("convolution", "conv", {x, kernel}, conv_attributes(*layer));
  y = with_conv_bias(context, layer->filters, y, weight);
  return activate_and_restore(
      context, y, [&](ValueId image) { return without_height(context, "restore", image); });
}

bool pads_to_same(const ops::Attribute& padding) {
  const auto* word = std::get_if<std::string>(&padding);
  return word && *word != "valid";
}

/// Rows and columns that are added at the bottom and right. Reports what does not go.
std::optional<std::array<int64_t, 2>> output_padding(ops::Call& call, const ConvLayer& layer) {
  auto added =
      ops::pair_of(call, "output_padding", call.integers("output_padding"), layer.dimensions);
  if (!added) return {};
  if (layer.dimensions == 1) (*added)[0] = 0;  // no rows
  const bool any = (*added)[0] > 0 || (*added)[1] > 0;
  if (any && pads_to_same(call.attribute("padding"))) {
    call.bad_attribute("output_padding", ops::Reason::kBadAttribute,
                       "`output_padding` conflicts with `padding: same`, where the output size is "
                       "the input size times the strides");
    return {};
  }
  for (size_t axis = 0; axis < 2; ++axis) {
    if ((*added)[axis] < layer.windows.strides[axis]) continue;
    call.bad_attribute(
        "output_padding", ops::Reason::kBadAttribute,
        fmt::format("`output_padding` is {} for a stride of {}; expected less than the stride",
                    (*added)[axis], layer.windows.strides[axis]));
    return {};
  }
  return added;
}

/// As of what windows slide over: the product with the weight has the result for its input.
void check_conv_output(ops::Call& call, std::array<int64_t, 2> output) {
  if (std::max(output[0], output[1]) <= ops::kMaxSize) return;
  call.bad_attribute("strides", ops::Reason::kTensorTooLarge,
                     fmt::format("the result is {} high and {} wide; at most {} are supported",
                                 output[0], output[1], ops::kMaxSize));
}

/// The pads of the convolution whose gradient this is, and the height and width of its input.
void place_transposed_conv(ops::Call& call, ConvLayer& layer) {
  const ops::Attribute& padding = call.attribute("padding");
  const auto added = output_padding(call, layer);
  if (!added || !ops::fits_windows(call, layer.input)) return;
  const ops::Windows& w = layer.windows;
  if (pads_to_same(padding)) {
    layer.output = {layer.input[0] * w.strides[0], layer.input[1] * w.strides[1]};
    layer.padding = ops::pads_of_word(std::get<std::string>(padding), layer.output, w);
    return check_conv_output(call, layer.output);
  }
  const auto pads = std::holds_alternative<std::string>(padding)
                        ? Integers(4, 0)
                        : ops::pads_of(call, padding, {.dimensions = layer.dimensions});
  if (!pads) return;
  layer.padding = *pads;
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t whole =
        (layer.input[axis] - 1) * w.strides[axis] + ops::span_of(w, axis) + (*added)[axis];
    const int64_t cut = (*pads)[2 * axis] + (*pads)[2 * axis + 1];
    layer.output[axis] = whole - cut;
    if (whole > cut) continue;
    call.bad_attribute(
        "padding", ops::Reason::kWindow,
        fmt::format("padding {} leaves no output: without padding the result is {} {}", cut, whole,
                    layer.dimensions == 1 ? "long"
                    : axis == 0           ? "high"
                                          : "wide"));
    return;
  }
  check_conv_output(call, layer.output);
}

ValueId expand_conv1d_transpose(LayerContext& context) {
  const auto layer = read_placed_conv(context, 1, place_transposed_conv);
  if (!layer) return {};
  const ValueId weight = add_conv_weight(context, *layer, layer->channels, layer->filters, true);
  const ValueId x = with_height(context, "expand", context.operands[0]);
  const ValueId kernel = with_height(context, "expand_weight", weight);
  ir::Attributes attributes = conv_attributes(*layer);
  attributes.set("input_shape",
                 Integers{context.operand(0).shape[0], layer->filters, 1, layer->output[1]});
  ValueId y = context.add("convolution_grad_data", "conv", {x, kernel}, std::move(attributes));
  y = with_conv_bias(context, layer->filters, y, weight);
  return activate_and_restore(
      context, y, [&](ValueId image) { return without_height(context, "restore", image); });
}

/// What the file says of a layer over volumes.
struct VolumeLayer {
  int64_t filters = 0, groups = 1;
  Shape x;
  ops::VolumeWindows windows;
};

std::optional<VolumeLayer> read_conv3d(const LayerContext& context) {
  ops::Call call = context.call();
  VolumeLayer layer{
      call.attribute<int64_t>("filters"), call.attribute<int64_t>("groups"), call.shape(0), {}};
  if (ops::has_rank(call, 0, 5, "(N, C, D, H, W)") &&
      ops::groups_fit(call, layer.x[1], layer.filters, layer.groups))
    if (const auto windows =
            ops::volume_windows(call, layer.x, "strides", "dilation_rate", {.dimensions = 3}))
      layer.windows = *windows;
  return context.report(call) ? std::nullopt : std::optional(layer);
}

/// 0, step, 2 step, ... in a shape of two axes.
ValueId multiples(const LayerContext& context, const char* part, int64_t count, int64_t step,
                  Integers shape) {
  const ValueId numbers = context.add("evenly_spaced", std::string(part) + "_from", {},
                                      {{"first", 0.0},
                                       {"last", static_cast<double>((count - 1) * step)},
                                       {"count", count},
                                       {"dtype", DType::kInt64}});
  return context.add("reshape", part, {numbers}, {{"shape", std::move(shape)}});
}

/// The planes that each window along the depth reads: (N, D', C kd, H, W).
ValueId planes_of_windows(const LayerContext& context, const VolumeLayer& layer) {
  const ops::AxisWindows& deep = layer.windows[0];
  const Shape& x = layer.x;
  ValueId volume = context.operands[0];
  if (deep.pads[0] + deep.pads[1] > 0)
    volume =
        context.add("pad", "pad", {volume},
                    {{"paddings", Integers{0, 0, 0, 0, deep.pads[0], deep.pads[1], 0, 0, 0, 0}}});
  const ValueId first = multiples(context, "windows", deep.count, deep.stride, {deep.count, 1});
  const ValueId within = multiples(context, "taps", deep.size, deep.dilation, {1, deep.size});
  const ValueId places = context.add("add", "planes", {first, within}, {});
  const ValueId planes = context.add("gather", "gather", {volume, places}, {{"axis", int64_t{2}}});
  const ValueId moved =
      context.add("transpose", "transpose", {planes}, {{"perm", Integers{0, 2, 1, 3, 4, 5}}});
  return context.add("reshape", "images", {moved},
                     {{"shape", Integers{x[0] * deep.count, x[1] * deep.size, x[3], x[4]}}});
}

/// Images of volumes, (N D', O, H', W'), as volumes again.
ValueId joined_planes(const LayerContext& context, const VolumeLayer& layer, ValueId images) {
  const auto& [deep, high, wide] = layer.windows;
  const Integers shape = {layer.x[0], deep.count, layer.filters, high.count, wide.count};
  const ValueId planes = context.add("reshape", "restore", {images}, {{"shape", shape}});
  return context.add("transpose", "join", {planes}, {{"perm", Integers{0, 2, 1, 3, 4}}});
}

/// A convolution of images whose channels are those of all planes of a window: the weight is the
/// same in another shape.
ValueId expand_conv3d(LayerContext& context) {
  const auto layer = read_conv3d(context);
  if (!layer) return {};
  const auto& [deep, high, wide] = layer->windows;
  const int64_t channels = layer->x[1] / layer->groups;
  const Shape shape = {layer->filters, channels, deep.size, high.size, wide.size};
  const ValueId weight = context.add_variable("weight", "kernel_initializer",
                                              context.operand(0).dtype, shape, fans_of(shape));
  if (!weight.valid()) return {};
  const ValueId kernel = context.add(
      "reshape", "flat_weight", {weight},
      {{"shape", Integers{layer->filters, channels * deep.size, high.size, wide.size}}});
  const ValueId images = planes_of_windows(context, *layer);
  ValueId y =
      context.add("convolution", "conv", {images, kernel},
                  {{"strides", Integers{high.stride, wide.stride}},
                   {"dilation", Integers{high.dilation, wide.dilation}},
                   {"padding", Integers{high.pads[0], high.pads[1], wide.pads[0], wide.pads[1]}},
                   {"groups", layer->groups}});
  y = with_conv_bias(context, layer->filters, y, weight);
  return activate_and_restore(
      context, y, [&](ValueId planes) { return joined_planes(context, *layer, planes); });
}

ValueId expand_conv2d_transpose(LayerContext& context) {
  const auto layer = read_placed_conv(context, 2, place_transposed_conv);
  if (!layer) return {};
  const ValueId weight = add_conv_weight(context, *layer, layer->channels, layer->filters, true);
  ir::Attributes attributes = conv_attributes(*layer);
  attributes.set("input_shape", Integers{context.operand(0).shape[0], layer->filters,
                                         layer->output[0], layer->output[1]});
  const ValueId y = context.add("convolution_grad_data", "conv", {context.operands[0], weight},
                                std::move(attributes));
  return context.activate(with_conv_bias(context, layer->filters, y, weight));
}

}  // namespace

std::span<const Rules> linear_layers() {
  static constexpr Rules kRules[] = {
      {"dense", nullptr, expand_dense},   {"conv1d", nullptr, expand_conv1d},
      {"conv2d", nullptr, expand_conv2d}, {"conv2d_transpose", nullptr, expand_conv2d_transpose},
      {"conv3d", nullptr, expand_conv3d}, {"conv1d_transpose", nullptr, expand_conv1d_transpose},
  };
  return kRules;
}

}  // namespace flow::grad
