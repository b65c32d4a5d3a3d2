// Expansions of layers: fully connected layers become a product, a bias and an activation, and 1D,
// 2D, 3D and transposed convolution layers become convolution primitives.
#include <algorithm>

#include "compiler/grad/shared_parts.h"
#include "ops/core/windows.h"

namespace flow::grad {
namespace {

/// Reshapes [..., in] to [rows, in], so that one product replaces a product for each leading index.
ir::ValueId flattened(const LayerContext& context, ir::ValueId x, const Shape& shape) {
  if (shape.rank() == 2) return x;
  const int last = shape.rank() - 1;
  return context.reshape("flatten", x, std::vector<int64_t>{shape.elements(0, last), shape[last]});
}

/// Activates the result of flattened rows and restores the leading axes of the operand's shape; the
/// last extent becomes `units`.
ir::ValueId restored(const LayerContext& context, ir::ValueId y, const Shape& shape,
                     int64_t units) {
  if (shape.rank() == 2) return context.activate(y);
  std::vector<int64_t> extents = shape.extents();
  extents.back() = units;
  return activate_and_restore(
      context, y, [&](ir::ValueId rows) { return context.reshape("restore", rows, extents); });
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

/// The parameters of a convolution layer in the job file, for 1D, 2D or 3D inputs.
struct ConvLayer {
  Shape x;
  int64_t filters = 0, groups = 1;
  // For a transposed layer, the windows of the convolution whose gradient it is.
  ops::Windows windows = {};
  Integers output = {};  // the output extents of a transposed layer

  int64_t channels() const { return x[1]; }
  Integers input() const { return x.from(2).extents(); }
  bool has_lengths() const { return x.rank() == 3; }
};

/// Reads the layer and calls `place`, which fills in the pads and, for a transposed layer, the
/// output extents. Reports errors and returns nothing if there are any.
std::optional<ConvLayer> read_conv(const LayerContext& context, int dimensions,
                                   void (*place)(ops::Call&, ConvLayer&)) {
  constexpr std::string_view kAxes[] = {"(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"};
  ops::Call call = context.call();
  ConvLayer layer{call.shape(0), call.attribute<int64_t>("filters"),
                  call.attribute<int64_t>("groups")};
  if (ops::has_rank(call, 0, dimensions + 2, kAxes[dimensions - 1]))
    if (auto windows = ops::read_windows(call, {.dimensions = dimensions});
        windows && ops::groups_fit(call, layer.channels(), layer.filters, layer.groups)) {
      layer.windows = std::move(*windows);
      place(call, layer);
    }
  return context.report(call) ? std::nullopt : std::optional(layer);
}

void place_conv(ops::Call& call, ConvLayer& layer) {
  ops::place_windows(call, layer.input(), {.dimensions = layer.x.rank() - 2}, layer.windows);
}

/// Returns the attributes of a convolution with windows over images.
ir::Attributes conv_attributes(const ops::Windows& windows, int64_t groups) {
  return {{"strides", each_of(windows, &ops::AxisWindows::stride)},
          {"dilation", each_of(windows, &ops::AxisWindows::dilation)},
          {"padding", pads_of(windows)},
          {"groups", groups}};
}

/// Adds the variable `weight` of the shape [out, in / groups, window sizes...].
ValueId add_conv_weight(const LayerContext& context, const ConvLayer& layer, bool transposed) {
  const int64_t out = transposed ? layer.channels() : layer.filters;
  const int64_t in = transposed ? layer.filters : layer.channels();
  Integers extents = each_of(layer.windows, &ops::AxisWindows::size);
  extents.insert(extents.begin(), {out, in / layer.groups});
  const Shape shape(extents);
  const Fans fans = fans_of(shape);
  return context.add_variable("weight", "kernel_initializer", context.operand(0).dtype, shape,
                              transposed ? Fans{fans.out, fans.in} : fans);
}

/// Adds bias_add if the layer has a bias.
ValueId with_conv_bias(const LayerContext& context, int64_t filters, ValueId y, ValueId weight) {
  if (!y.valid() || !context.attributes.get<bool>("use_bias")) return y;
  const ValueId bias =
      context.add_variable("bias", "bias_initializer", context.operand(0).dtype, {filters},
                           fans_of(context.builder.graph()[weight].shape));
  return context.add("bias_add", "bias_add", {y, bias});
}

bool pads_to_same(const ops::Attribute& padding) {
  const auto* word = std::get_if<std::string>(&padding);
  return word && *word != "valid";
}

/// Returns the number of elements that `output_padding` adds at the end of each axis. Reports
/// invalid values.
std::optional<Integers> output_padding(ops::Call& call, const ops::Windows& windows) {
  const auto added = ops::sizes_of(call, "output_padding", static_cast<int>(windows.size()));
  if (!added) return {};
  if (std::ranges::max(*added) > 0 && pads_to_same(call.attribute("padding"))) {
    call.bad_attribute("output_padding", ops::Reason::kBadAttribute,
                       "`output_padding` conflicts with `padding: same`, where the output size is "
                       "the input size times the strides");
    return {};
  }
  for (size_t axis = 0; axis < windows.size(); ++axis) {
    if ((*added)[axis] < windows[axis].stride) continue;
    call.bad_attribute(
        "output_padding", ops::Reason::kBadAttribute,
        fmt::format("`output_padding` is {} for a stride of {}; expected less than the stride",
                    (*added)[axis], windows[axis].stride));
    return {};
  }
  return added;
}

/// Reports an output that exceeds the size limit of window inputs, because the underlying
/// convolution has this output as its input. A 1D output counts as an image of height 1.
void check_conv_output(ops::Call& call, const Integers& output) {
  if (std::ranges::max(output) <= ops::kMaxSize) return;
  call.bad_attribute("strides", ops::Reason::kTensorTooLarge,
                     fmt::format("the result is {} high and {} wide; at most {} are supported",
                                 output.size() == 1 ? 1 : output[0], output.back(), ops::kMaxSize));
}

/// Fills in the pads of the convolution whose gradient this layer is, and the extents of that
/// convolution's input, which are the output extents of the layer.
void place_transposed_conv(ops::Call& call, ConvLayer& layer) {
  const auto added = output_padding(call, layer.windows);
  const Integers input = layer.input();
  if (!added || !ops::fits_windows(call, input)) return;
  const bool same = pads_to_same(call.attribute("padding"));
  for (size_t axis = 0; axis < input.size(); ++axis) {
    const ops::AxisWindows& along = layer.windows[axis];
    layer.output.push_back(same ? input[axis] * along.stride
                                : (input[axis] - 1) * along.stride + along.span() + (*added)[axis]);
  }
  if (!ops::pad_windows(call, layer.output, layer.windows)) return;
  for (size_t axis = 0; axis < input.size() && !same; ++axis) {
    const auto& pads = layer.windows[axis].pads;
    const int64_t whole = layer.output[axis], cut = pads[0] + pads[1];
    layer.output[axis] = whole - cut;
    if (whole > cut) continue;
    call.bad_attribute(
        "padding", ops::Reason::kWindow,
        fmt::format("padding {} leaves no output: without padding the result is {} {}", cut, whole,
                    layer.has_lengths() ? "long"
                    : axis == 0         ? "high"
                                        : "wide"));
    return;
  }
  check_conv_output(call, layer.output);
}

/// Expands a convolution, or a transposed one, over images or over 1D inputs, which are treated as
/// images of height 1.
template <int kDimensions, bool kTransposed>
ValueId expand_conv(LayerContext& context) {
  const auto layer =
      read_conv(context, kDimensions, kTransposed ? place_transposed_conv : place_conv);
  if (!layer) return {};
  const ValueId weight = add_conv_weight(context, *layer, kTransposed);
  ValueId x = context.operands[0], kernel = weight;
  if (layer->has_lengths()) {
    x = with_height(context, "expand", x);
    kernel = with_height(context, "expand_weight", weight);
  }
  ir::Attributes attributes = conv_attributes(ops::with_height(layer->windows), layer->groups);
  if (kTransposed)
    attributes.set("input_shape",
                   Integers{layer->x[0], layer->filters,
                            layer->has_lengths() ? 1 : layer->output[0], layer->output.back()});
  ValueId y = context.add(kTransposed ? "convolution_grad_data" : "convolution", "conv",
                          {x, kernel}, std::move(attributes));
  y = with_conv_bias(context, layer->filters, y, weight);
  if (!layer->has_lengths()) return context.activate(y);
  return activate_and_restore(
      context, y, [&](ValueId image) { return without_height(context, "restore", image); });
}

/// Returns the numbers 0, step, 2 step, ... in a shape with two axes.
ValueId multiples(const LayerContext& context, const char* part, int64_t count, int64_t step,
                  Integers shape) {
  const ValueId numbers = context.add("evenly_spaced", std::string(part) + "_from", {},
                                      {{"first", 0.0},
                                       {"last", static_cast<double>((count - 1) * step)},
                                       {"count", count},
                                       {"dtype", DType::kInt64}});
  return context.reshape(part, numbers, std::move(shape));
}

/// Returns the planes that each window along the depth reads, as images of the shape
/// (N D', C kd, H, W).
ValueId planes_of_windows(const LayerContext& context, const ConvLayer& layer) {
  const ops::AxisWindows& deep = layer.windows[0];
  const Shape& x = layer.x;
  ValueId volume = context.operands[0];
  if (deep.pads[0] + deep.pads[1] > 0)
    volume =
        context.add("pad", "pad", {volume},
                    {{"paddings", Integers{0, 0, 0, 0, deep.pads[0], deep.pads[1], 0, 0, 0, 0}}});
  const ValueId first = multiples(context, "windows", deep.count, deep.stride, {deep.count, 1});
  const ValueId within = multiples(context, "taps", deep.size, deep.dilation, {1, deep.size});
  const ValueId places = context.add("add", "planes", {first, within});
  const ValueId planes = context.add("gather", "gather", {volume, places}, {{"axis", int64_t{2}}});
  const ValueId moved =
      context.add("transpose", "transpose", {planes}, {{"perm", Integers{0, 2, 1, 3, 4, 5}}});
  return context.reshape("images", moved,
                         Integers{x[0] * deep.count, x[1] * deep.size, x[3], x[4]});
}

/// Converts images (N D', O, H', W') back to volumes.
ValueId joined_planes(const LayerContext& context, const ConvLayer& layer, ValueId images) {
  const ops::AxisWindows &deep = layer.windows[0], &high = layer.windows[1],
                         &wide = layer.windows[2];
  const Integers shape = {layer.x[0], deep.count, layer.filters, high.count, wide.count};
  const ValueId planes = context.reshape("restore", images, shape);
  return context.add("transpose", "join", {planes}, {{"perm", Integers{0, 2, 1, 3, 4}}});
}

/// Expands conv3d as a convolution of images whose channels are those of all planes of a window.
/// The weight keeps its elements and only changes its shape.
ValueId expand_conv3d(LayerContext& context) {
  const auto layer = read_conv(context, 3, place_conv);
  if (!layer) return {};
  const ValueId weight = add_conv_weight(context, *layer, false);
  if (!weight.valid()) return {};
  const ops::AxisWindows &deep = layer->windows[0], &high = layer->windows[1],
                         &wide = layer->windows[2];
  const int64_t channels = layer->channels() / layer->groups;
  const ValueId kernel = context.reshape(
      "flat_weight", weight, {layer->filters, channels * deep.size, high.size, wide.size});
  const ValueId images = planes_of_windows(context, *layer);
  ValueId y = context.add("convolution", "conv", {images, kernel},
                          conv_attributes({high, wide}, layer->groups));
  y = with_conv_bias(context, layer->filters, y, weight);
  return activate_and_restore(
      context, y, [&](ValueId planes) { return joined_planes(context, *layer, planes); });
}

}  // namespace

std::vector<Rules> linear_layers() {
  return {{"dense", nullptr, expand_dense},
          {"conv1d", nullptr, expand_conv<1, false>},
          {"conv2d", nullptr, expand_conv<2, false>},
          {"conv2d_transpose", nullptr, expand_conv<2, true>},
          {"conv3d", nullptr, expand_conv3d},
          {"conv1d_transpose", nullptr, expand_conv<1, true>}};
}

}  // namespace flow::grad
