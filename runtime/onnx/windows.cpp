// Convolutions and pools.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

NodeAttributes window_attributes(const StepExport& step) {
  const Shape& weight = step.in(1).shape;
  return {{"kernel_shape", Integers{weight[2], weight[3]}},
          {"strides", step.integers("strides")},
          {"pads", step.pads()},
          {"dilations", step.integers("dilation")},
          {"group", step.attribute<int64_t>("groups")}};
}

void convolution(StepExport& step) { step.result("Conv", step.names(), window_attributes(step)); }

/// Writes the gradient of a convolution with respect to its input.
void transposed_convolution(StepExport& step) {
  const Shape &x = step.in(0).shape, &weight = step.in(1).shape;
  const Integers& padding = step.integers("padding");
  Integers added;
  for (const int i : {0, 1}) {
    const auto at = static_cast<size_t>(i);
    const int64_t reach = (x[2 + i] - 1) * step.integers("strides")[at] +
                          step.integers("dilation")[at] * (weight[2 + i] - 1) + 1;
    added.push_back(step.out().shape[2 + i] - (reach - padding[2 * at] - padding[2 * at + 1]));
  }
  NodeAttributes attributes = window_attributes(step);
  attributes.push_back({"output_padding", added});
  step.result("ConvTranspose", step.names(), attributes);
}

void pool(StepExport& step) {
  step.result(step.type(), {step.in().name},
              {{"kernel_shape", step.integers("ksize")},
               {"strides", step.integers("strides")},
               {"pads", step.pads()}});
}

/// The largest stride, pad or dilation. Sums of their products cannot overflow.
constexpr int64_t kMostStep = int64_t{1} << 24;

/// Windows over one to three dimensions, as ONNX describes them.
struct Windows {
  Integers size, strides, dilations;
  std::string automatic;  // the attribute auto_pad
  Integers pads;          // [starts..., ends...]

  size_t dimensions() const { return size.size(); }
  /// Returns "1d", "2d" or "3d".
  std::string suffix() const { return fmt::format("{}d", dimensions()); }
};

Integers one_for_each(NodeImport& node, std::string_view name, size_t count, int64_t otherwise) {
  const Integers values = node.integers(name).value_or(Integers(count, otherwise));
  if (values.size() != count) refuse("{} numbers in {}; expected {}", values.size(), name, count);
  for (const int64_t value : values)
    if (value < 0 || value > kMostStep) refuse("{} in {}", value, name);
  return values;
}

Windows windows_of(NodeImport& node, Integers size, size_t most_dimensions) {
  Windows windows{
      .size = std::move(size), .strides = {}, .dilations = {}, .automatic = {}, .pads = {}};
  const size_t count = windows.dimensions();
  if (count < 1 || count > most_dimensions) refuse("windows of {} dimensions", count);
  if (node.rank() != static_cast<int>(count) + 2)
    refuse("windows of {} dimensions over {}", count, node.in(0).shape.str());
  for (const int64_t extent : windows.size)
    if (extent < 1 || extent > ops::kMaxSize) refuse("a window of {}", extent);
  windows.strides = one_for_each(node, "strides", count, 1);
  windows.dilations = one_for_each(node, "dilations", count, 1);
  windows.automatic = node.text("auto_pad", "NOTSET");
  windows.pads = one_for_each(node, "pads", 2 * count, 0);
  if (std::ranges::count(windows.strides, 0) + std::ranges::count(windows.dilations, 0) > 0)
    refuse("a stride or dilation of 0");
  return windows;
}

/// Returns the number of windows along dimension i of an input with this extent.
int64_t windows_along(const Windows& windows, size_t i, int64_t extent) {
  const int64_t stride = windows.strides[i];
  if (windows.automatic.starts_with("SAME")) return (extent + stride - 1) / stride;
  const int64_t span = windows.dilations[i] * (windows.size[i] - 1) + 1;
  const bool padded = windows.automatic == "NOTSET";
  const int64_t pads = padded ? windows.pads[i] + windows.pads[i + windows.dimensions()] : 0;
  const int64_t room = extent + pads - span;
  return room < 0 ? 0 : room / stride + 1;
}

ops::Attribute padding_of(const Windows& windows) {
  if (windows.automatic == "VALID") return std::string("valid");
  if (windows.automatic == "SAME_UPPER") return std::string("same");
  if (windows.automatic == "SAME_LOWER") return std::string("same_lower");
  if (windows.automatic != "NOTSET") refuse("auto_pad {}", windows.automatic);
  if (are_all(windows.pads, 0)) return std::string("valid");
  Integers pairs;
  for (size_t i = 0; i < windows.dimensions(); ++i) {
    pairs.push_back(windows.pads[i]);
    pairs.push_back(windows.pads[i + windows.dimensions()]);
  }
  return pairs;
}

/// Returns the shape [N, channels, windows...].
Shape windowed(const Windows& windows, const Tensor& x, int64_t channels) {
  Integers extents = {x.shape[0], channels};
  for (size_t i = 0; i < windows.dimensions(); ++i)
    extents.push_back(windows_along(windows, i, x.shape[static_cast<int>(i) + 2]));
  return Shape(std::move(extents));
}

/// Gives a result of windows over x the sizes of its axes.
Tensor sized(Tensor made, const Windows& windows, const Tensor& x) {
  if (x.sizes.empty()) return made;
  made.sizes = fixed(made.shape.extents());
  made.sizes[0] = x.size(0);
  if (made.shape[1] == x.shape[1]) made.sizes[1] = x.size(1);
  for (size_t i = 0; i < windows.dimensions(); ++i)
    made.sizes[i + 2] =
        *without_text({x.size(static_cast<int>(i) + 2)}, [&](const Integers& values) {
          return std::optional(windows_along(windows, i, values[0]));
        });
  return made;
}

/// Returns the weight, which is a constant with `rank` dimensions, and the bias.
std::map<std::string, Array> weights_of(NodeImport& node, int rank) {
  std::map<std::string, Array> weights = {{"weight", node.value(1)}};
  if (node.in(1).shape.rank() != rank)
    refuse("a weight {} for {}", node.in(1).shape.str(), node.in(0).shape.str());
  if (node.has(2)) weights.emplace("bias", node.value(2));
  return weights;
}

/// Checks that the bias has one element for each filter.
void require_bias(const std::map<std::string, Array>& weights, int64_t filters) {
  const auto bias = weights.find("bias");
  if (bias != weights.end() && bias->second.shape() != Shape{filters})
    refuse("a bias {}; expected [{}]", bias->second.shape().str(), filters);
}

Integers window_size(NodeImport& node) {
  node.ignore("kernel_shape");
  const Shape& weight = node.in(1).shape;
  return weight.rank() < 3 ? Integers() : weight.from(2).extents();
}

/// Returns the attributes that convolutions in both directions share.
ops::Attributes convolution_attributes(const NodeImport& node, const Windows& windows,
                                       int64_t filters, int64_t groups) {
  return {{"filters", filters},
          {"kernel_size", windows.size},
          {"strides", windows.strides},
          {"padding", padding_of(windows)},
          {"dilation_rate", windows.dilations},
          {"groups", groups},
          {"use_bias", node.has(2)}};
}

Tensors convolution(NodeImport& node) {
  const Windows windows = windows_of(node, window_size(node), 3);
  const Tensor x = node.operand(0);
  auto weights = weights_of(node, x.shape.rank());
  const int64_t filters = node.in(1).shape[0], groups = node.integer("group", 1);
  if (groups < 1 || x.shape[1] % groups != 0 || node.in(1).shape[1] != x.shape[1] / groups ||
      filters % groups != 0)
    refuse("a weight {} in {} groups for {}", node.in(1).shape.str(), groups, x.shape.str());
  require_bias(weights, filters);
  return {sized(node.layer("conv" + windows.suffix(), {x},
                           convolution_attributes(node, windows, filters, groups),
                           windowed(windows, x, filters), x.batch_axis == 0 ? 0 : ops::kNoBatch,
                           std::move(weights), {1, 2}),
                windows, x)};
}

/// Returns the extent that a transposed convolution covers, with output padding, before pads are
/// cut off.
int64_t reach_of(const Windows& windows, size_t i, int64_t extent, int64_t added) {
  return (extent - 1) * windows.strides[i] + windows.dilations[i] * (windows.size[i] - 1) + 1 +
         added;
}

Tensors transposed_convolution(NodeImport& node) {
  Windows windows = windows_of(node, window_size(node), 2);
  const size_t count = windows.dimensions();
  const Tensor x = node.operand(0);
  auto weights = weights_of(node, x.shape.rank());
  const int64_t groups = node.integer("group", 1);
  Integers added = one_for_each(node, "output_padding", count, 0);
  if (groups < 1 || x.shape[1] != node.in(1).shape[0] || x.shape[1] % groups != 0)
    refuse("a weight {} in {} groups for {}", node.in(1).shape.str(), groups, x.shape.str());
  const int64_t filters = node.in(1).shape[1] * groups;
  require_bias(weights, filters);
  if (const auto asked = node.integers("output_shape")) {
    if (asked->size() != count) refuse("output_shape of other dimensions");
    for (size_t i = 0; i < count; ++i) {
      node.pin({x.size(static_cast<int>(i) + 2)});
      const int64_t reach = reach_of(windows, i, x.shape[static_cast<int>(i) + 2], added[i]);
      if ((*asked)[i] < 1 || (*asked)[i] >= reach + windows.strides[i] - added[i])
        refuse("an output_shape beyond the windows");
      const int64_t over = std::max<int64_t>(reach - (*asked)[i], 0);
      added[i] += std::max<int64_t>((*asked)[i] - reach, 0);
      windows.pads[i] = over - over / 2;
      windows.pads[i + count] = over / 2;
    }
    windows.automatic = "NOTSET";
  }
  Sizes sizes = {x.size(0), fixed(filters)};
  for (size_t i = 0; i < count; ++i)
    sizes.push_back(*without_text({x.size(static_cast<int>(i) + 2)}, [&](const Integers& extent) {
      return std::optional(windows.automatic.starts_with("SAME")
                               ? extent[0] * windows.strides[i]
                               : reach_of(windows, i, extent[0], added[i]) - windows.pads[i] -
                                     windows.pads[i + count]);
    }));
  ops::Attributes attributes = convolution_attributes(node, windows, filters, groups);
  attributes.set("output_padding", added);
  Tensor made =
      node.layer("conv" + windows.suffix() + "_transpose", {x}, attributes, Shape(values_of(sizes)),
                 x.batch_axis == 0 ? 0 : ops::kNoBatch, std::move(weights), {1, 2});
  made.sizes = sizes;
  return {made};
}

/// Returns where the elements of the image end along each dimension, counted from the start of its
/// padding.
Integers ends_of(const Windows& windows, const Shape& shape) {
  Integers ends;
  for (size_t i = 0; i < windows.dimensions(); ++i)
    ends.push_back(shape[static_cast<int>(i) + 2] + windows.pads[i]);
  return ends;
}

/// Adds pads for a last window that extends past the end, unless it starts in the padding, after
/// `ends`.
void reach_end(Windows& windows, const Shape& shape, const Integers& ends) {
  if (windows.automatic != "NOTSET") return;
  for (size_t i = 0; i < windows.dimensions(); ++i) {
    int64_t &begin = windows.pads[i], &end = windows.pads[i + windows.dimensions()];
    const int64_t extent = shape[static_cast<int>(i) + 2] + begin, stride = windows.strides[i];
    const int64_t room = extent + end - windows.size[i];
    if (room <= -stride) continue;
    const int64_t last = (room + stride - 1) / stride * stride;
    if (last < ends[i]) end = std::max(end, last + windows.size[i] - extent);
  }
}

/// Pads images with zeros, which count in a mean.
Tensor padded(NodeImport& node, const Tensor& x, Windows& windows) {
  if (are_all(windows.pads, 0)) return x;
  Integers pairs(4, 0);
  for (size_t i = 0; i < windows.dimensions(); ++i)
    for (const size_t side : {i, i + windows.dimensions()})
      pairs.push_back(std::exchange(windows.pads[side], 0));
  return node.call("pad", {x}, {{"paddings", pairs}, {"mode", "constant"}, {"value", 0.0}});
}

/// Pools require floats, which represent all 8-bit integers exactly.
Tensor as_floats(NodeImport& node) {
  const Tensor x = node.operand(0);
  if (node.is_float()) return x;
  if (node.op() != "max_pool" || size_of(x.dtype) != 1) refuse("integers");
  return node.cast(x, node.compute_dtype());
}

/// The positions of windows along a dimension: padding on both sides of the input, and the number
/// of windows.
struct Reach {
  int64_t begin, end, count;
};

Reach reach_along(NodeImport& node, const Windows& windows, size_t i, int64_t extent) {
  const int64_t stride = windows.strides[i];
  const int64_t span = windows.dilations[i] * (windows.size[i] - 1) + 1;
  const bool rounds_up = node.integer("ceil_mode", 0) != 0;
  if (windows.automatic.starts_with("SAME")) {
    if (windows.dilations[i] != 1)  // ONNX Runtime has fewer windows than ONNX specifies
      refuse("auto_pad of windows with holes (dilations)");
    const int64_t count = (extent + stride - 1) / stride;
    const int64_t total = std::max<int64_t>((count - 1) * stride + span - extent, 0);
    const int64_t begin = windows.automatic == "SAME_LOWER" ? total - total / 2 : total / 2;
    return {begin, total - begin, count};
  }
  const bool padded = windows.automatic == "NOTSET";
  const int64_t begin = padded ? windows.pads[i] : 0;
  const int64_t end = padded ? windows.pads[i + windows.dimensions()] : 0;
  const int64_t room = extent + begin + end - span;
  if (room < 0) refuse("windows of {} over {} elements", span, extent);
  int64_t count = room / stride + 1;
  // True if the next window would start inside the input or the padding before it.
  const bool starts_inside = count * stride < extent + begin;
  if (rounds_up && room % stride != 0 && starts_inside) ++count;
  return {begin, end, count};
}

/// Replaces auto_pad with the pads that it stands for.
void write_pads(NodeImport& node, Windows& windows, const Shape& shape) {
  if (windows.automatic != "SAME_LOWER" && windows.automatic != "SAME_UPPER") return;
  for (size_t i = 0; i < windows.dimensions(); ++i) {
    const Reach reach = reach_along(node, windows, i, shape[static_cast<int>(i) + 2]);
    windows.pads[i] = reach.begin;
    windows.pads[i + windows.dimensions()] = reach.end;
  }
  windows.automatic = "NOTSET";
}

/// Returns the positions in the padded input of the elements of all windows along a dimension.
Integers elements_of(const Windows& windows, size_t i, int64_t count) {
  if (count > kMostStep / windows.size[i])
    refuse("{} windows of {} elements", count, windows.size[i]);
  Integers elements;
  for (int64_t window = 0; window < count; ++window)
    for (int64_t element = 0; element < windows.size[i]; ++element)
      elements.push_back(window * windows.strides[i] + element * windows.dilations[i]);
  return elements;
}

/// Returns a pool of x with `outside` around it. The elements of windows with holes are first
/// gathered next to each other.
Tensor pool_of_padded(NodeImport& node, std::string_view op, const Tensor& of,
                      const Windows& windows, double outside) {
  Tensor x = of;
  Integers pairs(4, 0), extents = {x.shape[0], x.shape[1]};
  for (size_t i = 0; i < windows.dimensions(); ++i) {
    const int64_t extent = x.shape[static_cast<int>(i) + 2];
    const Reach reach = reach_along(node, windows, i, extent);
    const int64_t last =
        (reach.count - 1) * windows.strides[i] + (windows.size[i] - 1) * windows.dilations[i];
    pairs.push_back(reach.begin);
    pairs.push_back(std::max(reach.end, last + 1 - extent - reach.begin));
    extents.push_back(reach.count);
  }
  if (!are_all(pairs, 0))
    x = node.call("pad", {x}, {{"paddings", pairs}, {"mode", "constant"}, {"value", outside}});
  const bool holes = !are_all(windows.dilations, 1);
  for (size_t i = 0; holes && i < windows.dimensions(); ++i) {
    const Integers elements = elements_of(windows, i, extents[i + 2]);
    const Tensor indices = node.constant(int64_array(elements, Shape{std::ssize(elements)}));
    x = node.call("gather", {x, node.materialized(indices, "window_elements")},
                  {{"axis", static_cast<int64_t>(i) + 2}});
  }
  return node.layer(std::string(op) + windows.suffix(), {x},
                    {{"ksize", windows.size},
                     {"strides", holes ? windows.size : windows.strides},
                     {"padding", "valid"}},
                    Shape(std::move(extents)), x.batch_axis);
}

/// Returns the share of each window that a mean counts, as an array that broadcasts to the result.
Array counted_parts(NodeImport& node, const Windows& windows, const Shape& x) {
  const bool counts_pads = node.integer("count_include_pad", 0) != 0;
  std::vector<double> parts = {1};
  Integers extents = {1, 1};
  for (size_t i = 0; i < windows.dimensions(); ++i) {
    const int64_t extent = x[static_cast<int>(i) + 2];
    const Reach reach = reach_along(node, windows, i, extent);
    const int64_t first = counts_pads ? 0 : reach.begin;
    const int64_t last = reach.begin + extent + (counts_pads ? reach.end : 0);
    const Integers elements = elements_of(windows, i, reach.count);
    std::vector<double> along;
    for (auto at = elements.begin(); at != elements.end(); at += windows.size[i]) {
      const auto counted = std::count_if(at, at + windows.size[i], [&](int64_t element) {
        return element >= first && element < last;
      });
      along.push_back(static_cast<double>(std::max<int64_t>(counted, 1)) /
                      static_cast<double>(windows.size[i]));
    }
    if (std::ssize(parts) > kMostStep / reach.count) refuse("too many windows");
    std::vector<double> longer;
    for (const double part : parts)
      for (const double other : along) longer.push_back(part * other);
    parts = std::move(longer);
    extents.push_back(reach.count);
  }
  Array array(DType::kFloat64, Shape(extents));
  std::ranges::copy(parts, array.as<double>().begin());
  return array;
}

Tensor pool_with_holes(NodeImport& node, const Windows& windows) {
  node.ignore("storage_order");
  node.pin_shapes();
  const DType dtype = node.in(0).dtype;
  const Tensor x = as_floats(node);
  const bool is_mean = node.op() == "avg_pool";
  constexpr double kLeastOutside = -3.4e38;
  Tensor pooled = pool_of_padded(node, node.op(), x, windows, is_mean ? 0 : kLeastOutside);
  if (is_mean) {
    const Array parts = converted(counted_parts(node, windows, x.shape), x.dtype);
    pooled =
        node.call("divide", {pooled, node.materialized(node.constant(parts), "counted_parts")});
  }
  return node.cast(pooled, dtype);
}

/// Returns the p-th root of the sum over each window of magnitudes to the power of p.
Tensors lp_pool(NodeImport& node) {
  const Windows windows = windows_of(node, node.integers("kernel_shape").value_or(Integers()), 3);
  const auto p = static_cast<double>(node.integer("p", 2));
  if (p < 1) refuse("the norm {}", p);
  node.pin_shapes();
  const Tensor x = node.call("abs", {node.operand(0)});
  const Tensor mean = pool_of_padded(node, "avg_pool", node.call("pow", x, p), windows, 0);
  double count = 1;
  for (const int64_t extent : windows.size) count *= static_cast<double>(extent);
  return {node.call("pow", node.call("multiply", mean, count), 1 / p)};
}

Tensors pool(NodeImport& node) {
  Windows windows = windows_of(node, node.integers("kernel_shape").value_or(Integers()), 3);
  if (!are_all(windows.dilations, 1)) return {pool_with_holes(node, windows)};
  node.ignore("storage_order");
  Tensor x = as_floats(node);
  const bool counts_pads = node.integer("count_include_pad", 0) != 0,
             reaches = node.integer("ceil_mode", 0) != 0;
  if ((counts_pads && windows.automatic.starts_with("SAME")) || reaches)
    for (size_t i = 0; i < windows.dimensions(); ++i) node.pin({x.size(static_cast<int>(i) + 2)});
  if (counts_pads) write_pads(node, windows, x.shape);
  const Integers ends = ends_of(windows, x.shape);
  if (counts_pads) x = padded(node, x, windows);
  if (reaches) reach_end(windows, x.shape, ends);
  const Tensor pooled = sized(
      node.layer(
          std::string(node.op()) + windows.suffix(), {x},
          {{"ksize", windows.size}, {"strides", windows.strides}, {"padding", padding_of(windows)}},
          windowed(windows, x, x.shape[1]), x.batch_axis),
      windows, x);
  return {node.cast(pooled, node.in(0).dtype)};
}

Tensors global_pool(NodeImport& node) {
  const Tensor x = node.operand(0);
  if (x.shape.rank() < 3) refuse("operand {}; expected (N, C, ...)", x.shape.str());
  Integers extents(static_cast<size_t>(x.shape.rank()), 1);
  extents[0] = x.shape[0];
  extents[1] = x.shape[1];
  Tensor pooled =
      node.layer(node.op(), {x}, {{"keepdims", true}}, Shape(std::move(extents)), x.batch_axis);
  if (x.sizes.empty()) return {pooled};
  pooled.sizes = fixed(pooled.shape.extents());
  std::copy_n(x.sizes.begin(), 2, pooled.sizes.begin());
  return {pooled};
}

constexpr Rule kWindowRules[] = {
    {"convolution", "Conv", convolution, convolution},
    {"convolution_grad_data", "ConvTranspose", transposed_convolution, transposed_convolution},
    {"max_pool2d", "MaxPool", pool},
    {"avg_pool2d", "AveragePool", pool},
    {"max_pool", "MaxPool", nullptr, pool},
    {"avg_pool", "AveragePool", nullptr, pool},
    {"", "LpPool", nullptr, lp_pool},
    {"global_avg_pool", "GlobalAveragePool", nullptr, global_pool},
    {"global_max_pool", "GlobalMaxPool", nullptr, global_pool},
};

}  // namespace

std::span<const Rule> window_rules() { return kWindowRules; }

}  // namespace flow::onnx
