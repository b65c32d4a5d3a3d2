// Resizes images, converts between channels and pixels, and gathers windows as rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "runtime/base/display.h"
#include "runtime/base/element_types.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// The windows of unfold and fold along one axis of images: 0 is the height, 1 the width.
struct Places {
  // `before` is the padding, `count` the number of windows.
  int64_t size, stride, dilation, before, count;

  Places(const StepExport& step, const Shape& images, size_t axis)
      : size(step.integers("kernel_size")[axis]),
        stride(step.integers("strides")[axis]),
        dilation(step.integers("dilation_rate")[axis]),
        before(step.integers("padding")[2 * axis]),
        count((padded(step, images, axis) - reach()) / stride + 1) {}

  /// Returns the number of elements that a window spans.
  int64_t reach() const { return dilation * (size - 1) + 1; }
  static int64_t padded(const StepExport& step, const Shape& images, size_t axis) {
    const Integers& padding = step.integers("padding");
    return images[2 + static_cast<int>(axis)] + padding[2 * axis] + padding[2 * axis + 1];
  }
  /// Returns the number of elements of the padded images after the last window.
  int64_t left_over(const StepExport& step, const Shape& images, size_t axis) const {
    return padded(step, images, axis) - ((count - 1) * stride + reach());
  }
};

/// Gathers the windows along an axis: [..., H, ...] becomes [..., kernel, windows, ...].
std::string gather_windows(StepExport& step, const std::string& images, const Places& places,
                           int64_t axis) {
  Array indices(DType::kInt64, Shape{places.size, places.count});
  for (int64_t place = 0; place < places.size; ++place)
    for (int64_t window = 0; window < places.count; ++window)
      indices.as<int64_t>()[static_cast<size_t>(place * places.count + window)] =
          window * places.stride + place * places.dilation;
  return step.node("Gather", {images, step.constant(indices.view())}, {{"axis", axis}});
}

/// Gathers windows by index, because ONNX has no operator for unfold. A product with a kernel of
/// zeros and ones would turn infinite elements into NaN.
void unfold(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  step.need_batch_axis(x, y.batch_axis);
  std::string images = x.name;
  const Integers pads = step.pads();
  if (!are_all(pads, 0))
    images =
        step.node("Pad", {images, step.vector({0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]})},
                  {{"mode", "constant"}});
  const std::string rows = gather_windows(step, images, Places(step, x.shape, 0), 2);
  const std::string columns = gather_windows(step, rows, Places(step, x.shape, 1), 4);
  const std::string by_window =
      step.node("Transpose", {columns}, {{"perm", Integers{0, 1, 2, 4, 3, 5}}});
  step.result("Reshape", {by_window, step.reshaping(y.shape, y.batch_axis)});
}

/// Col2Im requires opset 18. Instead, a transposed convolution of each channel adds up the places
/// of the windows. The places are the channels of its input, and its kernel contains a 1 at the
/// position of each place.
void fold(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  step.need_batch_axis(x, y.batch_axis);
  const Places rows(step, y.shape, 0), columns(step, y.shape, 1);
  const int64_t places = rows.size * columns.size;
  Array kernel(x.dtype, Shape{places, 1, rows.size, columns.size});
  visit_float(x.dtype, [&]<typename T>(T) {
    for (int64_t place = 0; place < places; ++place)
      kernel.as<T>()[static_cast<size_t>(place * places + place)] = 1;
  });
  const std::string windows = step.reshape(
      x.name, {y.shape[0] * y.shape[1], places, rows.count, columns.count}, y.batch_axis);
  const std::string images = step.node(
      "ConvTranspose", {windows, step.constant(kernel.view())},
      {{"kernel_shape", step.integers("kernel_size")},
       {"strides", step.integers("strides")},
       {"pads", step.pads()},
       {"dilations", step.integers("dilation_rate")},
       {"output_padding",
        Integers{rows.left_over(step, y.shape, 0), columns.left_over(step, y.shape, 1)}}});
  step.result("Reshape", {images, step.reshaping(y.shape, y.batch_axis)});
}

/// Resizes to sizes, whose first two are copied from the images, unless a scale determines the
/// pixel coordinates.
void resize(StepExport& step) {
  const Value& x = step.in();
  const auto& mode = step.attribute<std::string>("mode");
  const auto scale = step.attribute<double>("scale");
  Strings inputs = {x.name, ""};
  if (scale != 0) {
    inputs.push_back(step.numbers({1, 1, scale, scale}, DType::kFloat32));
  } else {
    const std::string shape = step.node("Shape", {x.name}, {{"end", 2}});
    inputs.emplace_back("");
    inputs.push_back(
        step.node("Concat", {shape, step.vector(step.integers("size"))}, {{"axis", 0}}));
  }
  const std::string_view named = mode == "bilinear"  ? "linear"
                                 : mode == "bicubic" ? "cubic"
                                                     : std::string_view(mode);
  NodeAttributes attributes = {{"mode", named},
                               {"coordinate_transformation_mode",
                                std::string_view(step.attribute<std::string>("coordinates"))}};
  if (mode == "nearest")
    attributes.push_back(
        {"nearest_mode", std::string_view(step.attribute<std::string>("rounding"))});
  if (mode == "bicubic") {
    attributes.push_back({"cubic_coeff_a", step.float32("cubic_coefficient")});
    attributes.push_back({"exclude_outside", step.attribute<bool>("exclude_outside")});
  }
  step.result("Resize", inputs, attributes);
}

/// The new extents of all axes, and the scale of height and width if the extents do not determine
/// it.
struct NewSize {
  Integers extents;
  std::optional<double> scale = {};
};

void require_images(const NodeImport& node) {
  if (node.rank() != 4)
    refuse("operand {}; expected four axes (N, C, H, W)", node.in(0).shape.str());
}

NewSize size_by_scales(const Shape& shape, const std::vector<double>& scales,
                       std::string_view coordinates) {
  NewSize result;
  bool exact = true;
  for (size_t i = 0; i < scales.size(); ++i) {
    const double extent = static_cast<double>(shape.extents()[i]) * scales[i];
    if (!(extent >= 0 && extent <= static_cast<double>(ops::kMaxSize)))
      refuse("a scale of {}", scales[i]);
    result.extents.push_back(static_cast<int64_t>(std::floor(extent)));
    exact &= std::floor(extent) == extent;
  }
  if (exact) return result;
  if (scales.size() != 4 || scales[0] != 1 || scales[1] != 1 || scales[2] != scales[3])
    refuse("scales that leave a fraction of a pixel, and are not one for (H, W)");
  if (coordinates == "align_corners" || coordinates == "half_pixel_symmetric")
    refuse("{} of a size with a fraction of a pixel", coordinates);
  result.scale = scales[2];
  return result;
}

/// Returns a number for each axis of the operand; `numbers` are those of the axes in the attribute
/// `axes`.
template <typename Number>
std::vector<Number> for_all_axes(NodeImport& node, const std::vector<Number>& numbers,
                                 std::vector<Number> all) {
  auto axes = node.integers("axes").value_or(Integers());
  for (size_t i = axes.size(); axes.size() < numbers.size() && i < all.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  if (axes.size() != numbers.size())
    refuse("{} sizes or scales for {} axes", numbers.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    all[static_cast<size_t>(node.axis(axes[i]))] = numbers[i];
  return all;
}

/// Reads the new size. Scales are an attribute, operand 1 or operand 2; sizes are operand 3.
NewSize new_size(NodeImport& node, std::string_view coordinates) {
  const Shape& shape = node.in(0).shape;
  const bool old = node.type() == "Upsample" || node.opset() < 11;
  const int at = old ? 1 : 2;
  std::vector<double> scales;
  if (const auto* found = node.find("scales", pb::AttributeProto::FLOATS)) {
    for (const float scale : found->floats()) scales.push_back(shortest_double(scale));
  } else if (node.has(at) && node.in(at).shape.elements() > 0) {
    const Array given = converted(node.value(at), DType::kFloat32);
    for (const float scale : given.as<float>()) scales.push_back(shortest_double(scale));
  } else if (old) {
    refuse("no scales");
  } else {
    const Sizes wanted = node.elements(3);
    for (size_t i = 0; i < wanted.size(); ++i)  // the first axis keeps its size
      if (i > 0 || wanted.size() < shape.extents().size() ||
          !are_same(wanted[0], node.in(0).size(0)))
        node.pin({wanted[i]});
    return {for_all_axes(node, values_of(wanted), shape.extents())};
  }
  return size_by_scales(shape,
                        for_all_axes(node, scales, std::vector<double>(shape.extents().size(), 1)),
                        coordinates);
}

/// Returns the coordinate mode. PyTorch's half pixels differ from half pixels only for a single
/// pixel.
std::string coordinates_of(NodeImport& node) {
  const bool old = node.type() == "Upsample" || node.opset() < 11;
  std::string coordinates =
      node.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  constexpr std::array kKnown = {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric",
                                 "align_corners", "asymmetric"};
  if (std::ranges::find(kKnown, coordinates) == kKnown.end())
    refuse("coordinate_transformation_mode {}", escaped(coordinates));
  return coordinates;
}

/// Returns the op's attributes for `mode`.
ops::Attributes resize_attributes(NodeImport& node, const std::string& mode) {
  const bool old = node.type() == "Upsample" || node.opset() < 11;
  std::string rounding = node.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  constexpr std::array kRoundings = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  if (std::ranges::find(kRoundings, rounding) == kRoundings.end())
    refuse("an unknown nearest_mode");
  const double coefficient = node.number("cubic_coeff_a", -0.75);
  const bool excludes = node.integer("exclude_outside", 0) != 0;
  node.ignore("extrapolation_value");  // only affects other coordinate modes
  const bool cubic = mode == "cubic";
  return {{"mode", cubic               ? "bicubic"
                   : mode == "nearest" ? "nearest"
                                       : "bilinear"},
          {"rounding", mode == "nearest" ? rounding : "round_prefer_floor"},
          {"cubic_coefficient", cubic ? coefficient : -0.75},
          {"exclude_outside", cubic && excludes}};
}

/// Resizes one or two axes at a time, which are reshaped to height and width.
Tensor resized(NodeImport& node, const Integers& extents, ops::Attributes attributes) {
  Tensor x = node.operand(0);
  const int last = x.shape.rank() - 1;
  if (extents[0] != x.shape[0]) refuse("another size of the first axis");
  for (const int64_t extent : extents)
    if (extent < 1) refuse("a size of {}", extent);
  for (int axis = last; axis > 0; --axis) {
    Integers shape = x.shape.extents();
    const size_t width = static_cast<size_t>(axis), height = width - (axis == last ? 1 : 0);
    if (shape[width] == extents[width]) continue;
    // The last axis is resized together with the one before it. For any other axis, the axes after
    // it become columns.
    const bool is_last = axis == last && axis > 1;
    const Shape seen =
        is_last ? Shape{shape[0], x.shape.elements(1, axis - 1), shape[height], shape[width]}
                : Shape{shape[0], x.shape.elements(1, axis), shape[width],
                        x.shape.elements(axis + 1, last + 1)};
    if (is_last) shape[height] = extents[height];
    shape[width] = extents[width];
    attributes.set(
        "size", Integers{is_last ? shape[height] : shape[width], is_last ? shape[width] : seen[3]});
    const auto seen_as = [&](const Shape& as) {
      Sizes sizes = fixed(as.extents());
      sizes[0] = x.size(0);
      if (as != x.shape) x = node.reshape(x, sizes);
    };
    seen_as(seen);
    x = node.call("resize", {x}, attributes);
    seen_as(Shape(shape));
  }
  return x;
}

Tensors resize(NodeImport& node) {
  if (node.rank() < 2) refuse("operand {}; expected two or more axes", node.in(0).shape.str());
  const std::string mode = node.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear" && mode != "cubic")
    refuse("an unknown mode");
  if (node.integer("antialias", 0) != 0) refuse("antialias");
  if (const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
      policy != "stretch")
    refuse("keep_aspect_ratio_policy {}", escaped(policy));
  std::string coordinates = coordinates_of(node);
  const NewSize wanted = new_size(node, coordinates);
  for (int axis = 1; axis < node.rank(); ++axis) node.pin({node.in(0).size(axis)});
  for (int axis = 0; axis < node.rank(); ++axis)
    if (coordinates == "pytorch_half_pixel" && wanted.extents[static_cast<size_t>(axis)] == 1 &&
        node.in(0).shape[axis] != 1)
      refuse("a size of 1 (pytorch_half_pixel)");
  ops::Attributes attributes = resize_attributes(node, mode);
  attributes.set("coordinates", coordinates.find("half_pixel") == std::string::npos
                                    ? coordinates
                                    : std::string("half_pixel"));
  attributes.set("size", Integers());
  attributes.set("scale", wanted.scale.value_or(0));
  if (wanted.scale) return {node.call("resize", {node.operand(0)}, attributes)};
  return {resized(node, wanted.extents, attributes)};
}

int64_t block_size(NodeImport& node) {
  require_images(node);
  const int64_t size = node.integer("blocksize", 0);
  if (size < 1 || size > ops::kMaxSize) refuse("blocks of {}", size);
  return size;
}

[[noreturn]] void refuse_blocks(const NodeImport& node, int64_t size) {
  refuse("blocks of {} in {}", size, node.in(0).shape.str());
}

/// Returns the op's name for the channel order of the node.
std::string block_mode(NodeImport& node) {
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") refuse("an unknown mode");
  return mode == "DCR" ? "dcr" : "crd";
}

Tensors depth_to_space(NodeImport& node) {
  const int64_t size = block_size(node);
  const Tensor x = node.operand(0);
  if (size > x.shape[1] || x.shape[1] % (size * size) != 0) refuse_blocks(node, size);
  Tensor made = node.layer(
      "pixel_shuffle", {x}, {{"factor", size}, {"mode", block_mode(node)}},
      {x.shape[0], x.shape[1] / (size * size), x.shape[2] * size, x.shape[3] * size}, x.batch_axis);
  if (!x.sizes.empty())
    made.sizes = {x.size(0), quotient({x.size(1)}, {fixed(size * size)}),
                  product({x.size(2), fixed(size)}), product({x.size(3), fixed(size)})};
  return {made};
}

Tensors space_to_depth(NodeImport& node) {
  const int64_t size = block_size(node);
  const Tensor x = node.operand(0);
  if (x.shape[2] % size != 0 || x.shape[3] % size != 0) refuse_blocks(node, size);
  Tensor made = node.layer(
      "pixel_unshuffle", {x}, {{"factor", size}, {"mode", block_mode(node)}},
      {x.shape[0], x.shape[1] * size * size, x.shape[2] / size, x.shape[3] / size}, x.batch_axis);
  if (!x.sizes.empty())
    made.sizes = {x.size(0), product({x.size(1), fixed(size * size)}),
                  quotient({x.size(2)}, {fixed(size)}), quotient({x.size(3)}, {fixed(size)})};
  return {made};
}

/// Returns the `count` numbers of an attribute, or `otherwise` for each if the attribute is
/// missing.
Integers numbers_of(NodeImport& node, std::string_view name, size_t count, int64_t otherwise) {
  Integers numbers = node.integers(name).value_or(Integers(count, otherwise));
  if (numbers.size() != count) refuse("{} {}", numbers.size(), name);
  return numbers;
}

Tensors columns_to_image(NodeImport& node) {
  const Integers size = node.values_as_int64(1), kernel = node.values_as_int64(2);
  if (size.size() != 2 || kernel.size() != 2) refuse("windows of {} dimensions", kernel.size());
  const Integers pads = numbers_of(node, "pads", 4, 0);  // top, left, bottom, right
  return {node.call("fold", {node.operand(0)},
                    {{"output_size", size},
                     {"kernel_size", kernel},
                     {"strides", numbers_of(node, "strides", 2, 1)},
                     {"padding", Integers{pads[0], pads[2], pads[1], pads[3]}},
                     {"dilation_rate", numbers_of(node, "dilations", 2, 1)}})};
}

constexpr Rule kImageRules[] = {
    {"unfold", "", unfold},
    {"fold", "Col2Im", fold, columns_to_image},
    {"resize", "Resize", resize, resize},
    {"", "Upsample", nullptr, resize},
    {"", "DepthToSpace", nullptr, depth_to_space},
    {"", "SpaceToDepth", nullptr, space_to_depth},
};

}  // namespace

std::span<const Rule> image_rules() { return kImageRules; }

}  // namespace flow::onnx
