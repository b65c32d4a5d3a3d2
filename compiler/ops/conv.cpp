// Convolution layers: over lengths, over images, and the transposed one.
#include <fmt/format.h>

#include "compiler/ir/builder.h"
#include "compiler/ops/families.h"
#include "compiler/ops/initializers.h"
#include "compiler/ops/layers.h"
#include "compiler/ops/windows.h"

namespace flow::defs {
namespace {

using ir::ValueId;
using Integers = std::vector<int64_t>;

/// What the file says of a layer, over images: a length is the width of an image of height 1.
struct Layer {
  int dimensions = 2;
  int64_t channels = 0, filters = 0, groups = 1;
  std::array<int64_t, 2> input{};  // height, width
  Windows windows{};
};

/// Reports what is wrong with it.
std::optional<Layer> read_layer(const LayerContext& context, int dimensions) {
  CallSite site = context.site();
  if (!has_rank(site, 0, dimensions + 2, dimensions == 1 ? "(N, C, L)" : "(N, C, H, W)")) return {};
  const Shape& x = context.operand(0).shape;
  const auto sizes = [&](std::string_view name) {
    return pair_of(site, name, context.attributes.get<Integers>(name), dimensions);
  };
  const auto size = sizes("kernel_size"), strides = sizes("strides"),
             dilation = sizes("dilation_rate");
  Layer layer{.dimensions = dimensions,
              .channels = x[1],
              .filters = context.attributes.get<int64_t>("filters"),
              .groups = context.attributes.get<int64_t>("groups"),
              .input = {dimensions == 1 ? 1 : x[2], x[x.rank() - 1]}};
  if (!size || !strides || !dilation ||
      !groups_fit(site, layer.channels, layer.filters, layer.groups))
    return {};
  layer.windows = {*size, *strides, *dilation};
  return layer;
}

ir::Attributes windows_attributes(const Layer& layer, Integers padding) {
  const Windows& windows = layer.windows;
  return {{"strides", Integers(windows.strides.begin(), windows.strides.end())},
          {"dilation", Integers(windows.dilation.begin(), windows.dilation.end())},
          {"padding", std::move(padding)},
          {"groups", layer.groups}};
}

/// The variable `weight`: [out, in / groups, the window's sizes].
ValueId add_weight(const LayerContext& context, const Layer& layer, int64_t out, int64_t in,
                   bool transposed) {
  const auto& size = layer.windows.size;
  Integers extents = {out, in / layer.groups, size[0], size[1]};
  if (layer.dimensions == 1) extents.erase(extents.begin() + 2);
  const Shape shape(extents);
  const Fans fans = fans_of(shape);
  return context.add_variable("weight", "kernel_initializer", context.operand(0).dtype, shape,
                              transposed ? Fans{fans.out, fans.in} : fans);
}

/// bias_add, where the layer has a bias.
ValueId with_bias(const LayerContext& context, const Layer& layer, ValueId y, ValueId weight) {
  if (!y.valid() || !context.attributes.get<bool>("use_bias")) return y;
  const ValueId bias =
      context.add_variable("bias", "bias_initializer", context.operand(0).dtype, {layer.filters},
                           fans_of(context.builder.graph()[weight].shape));
  return context.add("bias_add", "bias_add", {y, bias}, {});
}

ValueId expand_conv2d(LayerContext& context) {
  const auto layer = read_layer(context, 2);
  if (!layer) return {};
  CallSite site = context.site();
  const auto placed =
      place_windows(site, layer->input, layer->windows, *context.attributes.find("padding"), {});
  if (!placed) return {};
  const ValueId weight = add_weight(context, *layer, layer->filters, layer->channels, false);
  const ValueId y = context.add("convolution", "conv", {context.operands[0], weight},
                                windows_attributes(*layer, placed->padding));
  return context.activate(with_bias(context, *layer, y, weight));
}

ValueId expand_conv1d(LayerContext& context) {
  const auto layer = read_layer(context, 1);
  if (!layer) return {};
  CallSite site = context.site();
  const auto placed = place_windows(site, layer->input, layer->windows,
                                    *context.attributes.find("padding"), {.dimensions = 1});
  if (!placed) return {};
  const ValueId weight = add_weight(context, *layer, layer->filters, layer->channels, false);
  const ValueId x = with_height(context, "expand", context.operands[0]);
  const ValueId kernel = with_height(context, "expand_weight", weight);
  ValueId y =
      context.add("convolution", "conv", {x, kernel}, windows_attributes(*layer, placed->padding));
  y = with_bias(context, *layer, y, weight);
  return activate_and_restore(
      context, y, [&](ValueId image) { return without_height(context, "restore", image); });
}

/// The pads of the convolution whose gradient this is, and the height and width of its input.
struct Transposed {
  Integers padding;
  std::array<int64_t, 2> output;
};

bool is_same(const ir::Attribute& padding) {
  const auto* word = std::get_if<std::string>(&padding);
  return word && *word != "valid";
}

/// Rows and columns that are added at the bottom and right. Reports what does not go.
std::optional<std::array<int64_t, 2>> output_padding(CallSite& site, const LayerContext& context,
                                                     const Layer& layer) {
  const auto added =
      pair_of(site, "output_padding", context.attributes.get<Integers>("output_padding"));
  if (!added) return {};
  const bool any = (*added)[0] > 0 || (*added)[1] > 0;
  if (any && is_same(*context.attributes.find("padding"))) {
    site.bad_attribute("output_padding", Diagnosis::kBadAttribute,
                       "`output_padding` conflicts with `padding: same`, where the output size is "
                       "the input size times the strides");
    return {};
  }
  for (size_t axis = 0; axis < 2; ++axis) {
    if ((*added)[axis] < layer.windows.strides[axis]) continue;
    site.bad_attribute(
        "output_padding", Diagnosis::kBadAttribute,
        fmt::format("`output_padding` is {} for a stride of {}; expected less than the stride",
                    (*added)[axis], layer.windows.strides[axis]));
    return {};
  }
  return added;
}

std::optional<Transposed> place_transposed(CallSite& site, const LayerContext& context,
                                           const Layer& layer) {
  const ir::Attribute& padding = *context.attributes.find("padding");
  const auto added = output_padding(site, context, layer);
  if (!added || !fits_windows(site, layer.input)) return {};
  Transposed placed;
  const Windows& w = layer.windows;
  if (is_same(padding)) {
    placed.output = {layer.input[0] * w.strides[0], layer.input[1] * w.strides[1]};
    placed.padding = pads_of_word(std::get<std::string>(padding), placed.output, w);
    return placed;
  }
  const auto pads =
      std::holds_alternative<std::string>(padding) ? Integers(4, 0) : pads_of(site, padding, {});
  if (!pads) return {};
  placed.padding = *pads;
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t whole =
        (layer.input[axis] - 1) * w.strides[axis] + span_of(w, axis) + (*added)[axis];
    const int64_t cut = (*pads)[2 * axis] + (*pads)[2 * axis + 1];
    placed.output[axis] = whole - cut;
    if (whole > cut) continue;
    site.bad_attribute(
        "padding", Diagnosis::kWindow,
        fmt::format("padding {} leaves no output: without padding the result is {} {}", cut, whole,
                    axis == 0 ? "high" : "wide"));
    return {};
  }
  return placed;
}

/// As of what windows slide over: the product with the weight has the result for its input.
bool fits_result(CallSite& site, std::array<int64_t, 2> output) {
  if (static_cast<double>(std::max(output[0], output[1])) <= kMaxWindow) return true;
  site.bad_attribute("strides", Diagnosis::kTensorTooLarge,
                     fmt::format("the result is {} high and {} wide; at most {:.0f} are supported",
                                 output[0], output[1], kMaxWindow));
  return false;
}

ValueId expand_conv2d_transpose(LayerContext& context) {
  const auto layer = read_layer(context, 2);
  if (!layer) return {};
  CallSite site = context.site();
  const auto placed = place_transposed(site, context, *layer);
  if (!placed || !fits_result(site, placed->output)) return {};
  const ValueId weight = add_weight(context, *layer, layer->channels, layer->filters, true);
  ir::Attributes attributes = windows_attributes(*layer, placed->padding);
  attributes.set("input_shape", Integers{context.operand(0).shape[0], layer->filters,
                                         placed->output[0], placed->output[1]});
  const ValueId y = context.add("convolution_grad_data", "conv", {context.operands[0], weight},
                                std::move(attributes));
  return context.activate(with_bias(context, *layer, y, weight));
}

AttributeDef filters_attribute() {
  AttributeDef def = sizes_attribute("filters", "", "number of output channels");
  def.type = AttributeType::kInteger;
  return def;
}

std::vector<AttributeDef> layer_attributes(int dimensions) {
  return {filters_attribute(),
          sizes_attribute("kernel_size", "",
                          dimensions == 1 ? "kernel length"
                                          : "kernel height and width, or one number for both"),
          sizes_attribute("strides", "1", "step between windows, in elements"),
          padding_attribute(dimensions),
          sizes_attribute("dilation_rate", "1", "spacing between kernel elements; 1 is dense"),
          groups_attribute()};
}

std::vector<AttributeDef> transposed_attributes() {
  std::vector<AttributeDef> attributes = layer_attributes(2);
  attributes.push_back(
      sizes_attribute("output_padding", "0", "rows and columns to add at the bottom and right"));
  attributes.back().min = 0;
  return attributes;
}

}  // namespace

std::span<const OpDef> conv() {
  static const OpDef kOps[] = {
      {
          .name = "conv1d",
          .doc = "1D convolution layer with weight (filters, C/groups, k), optional bias and "
                 "activation.",
          .formula = "y = activation(x * W + b)",
          .operands = {{"in", "(N, C, L)"}},
          .attributes = with_kernel_attributes(layer_attributes(1)),
          .expand = expand_conv1d,
          .takes_variables = true,
      },
      {
          .name = "conv2d",
          .doc = "2D convolution layer with weight (filters, C/groups, kh, kw), optional bias and "
                 "activation.",
          .formula = "y = activation(x * W + b)",
          .operands = {{"in", "(N, C, H, W)"}},
          .attributes = with_kernel_attributes(layer_attributes(2)),
          .expand = expand_conv2d,
          .takes_variables = true,
      },
      {
          .name = "conv2d_transpose",
          .doc = "Transposed 2D convolution layer with weight (C, filters/groups, kh, kw), "
                 "optional bias and activation.",
          .formula = "y = activation(x *^T W + b)",
          .operands = {{"in", "(N, C, H, W)"}},
          .attributes = with_kernel_attributes(transposed_attributes()),
          .expand = expand_conv2d_transpose,
          .takes_variables = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
