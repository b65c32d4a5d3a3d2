// Images in another size, channels that become pixels, and windows that become images.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "runtime/base/display.h"
#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// What all axes get, and the factor of height and width where it does not follow from these.
struct NewSize {
  Integers extents;
  std::optional<double> scale = {};
};

void require_images(const NodeImport& node) {
  if (node.rank() != 4)
    throw Unsupported(
        fmt::format("operand {}; expected four axes (N, C, H, W)", node.in(0).shape.str()));
}

NewSize size_by_scales(const Shape& shape, const std::vector<double>& scales,
                       std::string_view coordinates) {
  NewSize result;
  bool exact = true;
  for (size_t i = 0; i < scales.size(); ++i) {
    const double extent = static_cast<double>(shape.extents()[i]) * scales[i];
    if (!(extent >= 0 && extent <= static_cast<double>(ops::kMaxSize)))
      throw Unsupported(fmt::format("a scale of {}", scales[i]));
    result.extents.push_back(static_cast<int64_t>(std::floor(extent)));
    exact &= std::floor(extent) == extent;
  }
  if (exact) return result;
  if (scales.size() != 4 || scales[0] != 1 || scales[1] != 1 || scales[2] != scales[3])
    throw Unsupported("scales that leave a fraction of a pixel, and are not one for (H, W)");
  if (coordinates == "align_corners" || coordinates == "half_pixel_symmetric")
    throw Unsupported(fmt::format("{} of a size with a fraction of a pixel", coordinates));
  result.scale = scales[2];
  return result;
}

/// A number for each axis of the operand, from those for the attribute `axes`.
template <typename Number>
std::vector<Number> for_all_axes(NodeImport& node, const std::vector<Number>& numbers,
                                 std::vector<Number> all) {
  auto axes = node.integers("axes").value_or(Integers());
  for (size_t i = axes.size(); axes.size() < numbers.size() && i < all.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  if (axes.size() != numbers.size())
    throw Unsupported(fmt::format("{} sizes or scales for {} axes", numbers.size(), axes.size()));
  for (size_t i = 0; i < axes.size(); ++i)
    all[static_cast<size_t>(node.axis(axes[i]))] = numbers[i];
  return all;
}

/// Scales are an attribute, operand 1 or operand 2; sizes are operand 3.
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
    throw Unsupported("no scales");
  } else {
    const Sizes wanted = node.elements(3);
    for (size_t i = 0; i < wanted.size(); ++i)  // the first axis stays
      if (i > 0 || wanted.size() < shape.extents().size() ||
          !are_same(wanted[0], node.in(0).size(0)))
        node.pin({wanted[i]});
    return {for_all_axes(node, values_of(wanted), shape.extents())};
  }
  return size_by_scales(shape,
                        for_all_axes(node, scales, std::vector<double>(shape.extents().size(), 1)),
                        coordinates);
}

/// Where pixels are. PyTorch's half pixels differ for a single one alone.
std::string coordinates_of(NodeImport& node) {
  const bool old = node.type() == "Upsample" || node.opset() < 11;
  std::string coordinates =
      node.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  constexpr std::array kKnown = {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric",
                                 "align_corners", "asymmetric"};
  if (std::ranges::find(kKnown, coordinates) == kKnown.end())
    throw Unsupported(fmt::format("coordinate_transformation_mode {}", escaped(coordinates)));
  return coordinates;
}

/// The op's attributes, of `mode`.
ops::Attributes resize_attributes(NodeImport& node, const std::string& mode) {
  const bool old = node.type() == "Upsample" || node.opset() < 11;
  std::string rounding = node.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  constexpr std::array kRoundings = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  if (std::ranges::find(kRoundings, rounding) == kRoundings.end())
    throw Unsupported("an unknown nearest_mode");
  const double coefficient = node.number("cubic_coeff_a", -0.75);
  const bool excludes = node.integer("exclude_outside", 0) != 0;
  node.ignore("extrapolation_value");  // of other coordinates
  const bool cubic = mode == "cubic";
  return {{"mode", cubic               ? "bicubic"
                   : mode == "nearest" ? "nearest"
                                       : "bilinear"},
          {"rounding", mode == "nearest" ? rounding : "round_prefer_floor"},
          {"cubic_coefficient", cubic ? coefficient : -0.75},
          {"exclude_outside", cubic && excludes}};
}

/// One or two axes at a time, which become height and width.
Tensor resized(NodeImport& node, const Integers& extents, ops::Attributes attributes) {
  Tensor x = node.operand(0);
  const int last = x.shape.rank() - 1;
  if (extents[0] != x.shape[0]) throw Unsupported("another size of the first axis");
  for (const int64_t extent : extents)
    if (extent < 1) throw Unsupported(fmt::format("a size of {}", extent));
  for (int axis = last; axis > 0; --axis) {
    Integers shape = x.shape.extents();
    const size_t width = static_cast<size_t>(axis), height = width - (axis == last ? 1 : 0);
    if (shape[width] == extents[width]) continue;
    // The last axis goes with the one before it; those behind another one are columns.
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
  if (node.rank() < 2)
    throw Unsupported(fmt::format("operand {}; expected two or more axes", node.in(0).shape.str()));
  const std::string mode = node.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear" && mode != "cubic")
    throw Unsupported("an unknown mode");
  if (node.integer("antialias", 0) != 0) throw Unsupported("antialias");
  if (const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
      policy != "stretch")
    throw Unsupported(fmt::format("keep_aspect_ratio_policy {}", escaped(policy)));
  std::string coordinates = coordinates_of(node);
  const NewSize wanted = new_size(node, coordinates);
  for (int axis = 1; axis < node.rank(); ++axis) node.pin({node.in(0).size(axis)});
  for (int axis = 0; axis < node.rank(); ++axis)
    if (coordinates == "pytorch_half_pixel" && wanted.extents[static_cast<size_t>(axis)] == 1 &&
        node.in(0).shape[axis] != 1)
      throw Unsupported("a size of 1 (pytorch_half_pixel)");
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
  if (size < 1 || size > ops::kMaxSize) throw Unsupported(fmt::format("blocks of {}", size));
  return size;
}

[[noreturn]] void refuse_blocks(const NodeImport& node, int64_t size) {
  throw Unsupported(fmt::format("blocks of {} in {}", size, node.in(0).shape.str()));
}

/// The op's name of an order of channels.
std::string block_mode(NodeImport& node) {
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") throw Unsupported("an unknown mode");
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

/// An attribute with a number for each of two axes, or `otherwise`.
Integers numbers_of(NodeImport& node, std::string_view name, size_t count, int64_t otherwise) {
  Integers numbers = node.integers(name).value_or(Integers(count, otherwise));
  if (numbers.size() != count) throw Unsupported(fmt::format("{} {}", numbers.size(), name));
  return numbers;
}

Tensors columns_to_image(NodeImport& node) {
  const Integers size = node.values_as_int64(1), kernel = node.values_as_int64(2);
  if (size.size() != 2 || kernel.size() != 2)
    throw Unsupported(fmt::format("windows of {} dimensions", kernel.size()));
  const Integers pads = numbers_of(node, "pads", 4, 0);  // top, left, bottom, right
  return {node.call("fold", {node.operand(0)},
                    {{"output_size", size},
                     {"kernel_size", kernel},
                     {"strides", numbers_of(node, "strides", 2, 1)},
                     {"padding", Integers{pads[0], pads[2], pads[1], pads[3]}},
                     {"dilation_rate", numbers_of(node, "dilations", 2, 1)}})};
}

/// Reads images at places of a grid, each the weighted sum of pixels around it.
class GridSample {
 public:
  explicit GridSample(NodeImport& node)
      : node_(node), x_(node.operand(0)), grid_(node.operand(1)), axes_(x_.shape.rank() - 2) {
    const Shape& grid = grid_.shape;
    if (axes_ < 1 || grid.rank() != axes_ + 2 || grid[axes_ + 1] != axes_ || grid[0] != x_.shape[0])
      throw Unsupported(fmt::format("a grid {} for {}", grid.str(), x_.shape.str()));
    mode_ = node.text("mode", node.opset() < 20 ? "bilinear" : "linear");
    padding_ = node.text("padding_mode", "zeros");
    corners_ = node.integer("align_corners", 0) != 0;
    if (mode_.starts_with("bi")) mode_.erase(0, 2);  // before opset 20
    constexpr std::array kModes = {"linear", "nearest", "cubic"};
    constexpr std::array kPaddings = {"zeros", "border", "reflection"};
    if (std::ranges::find(kModes, mode_) == kModes.end() ||
        std::ranges::find(kPaddings, padding_) == kPaddings.end())
      throw Unsupported("an unknown mode or padding_mode");
    if (mode_ == "cubic" && axes_ > 2) throw Unsupported("cubic of more than two axes");
  }

  Tensor run() {
    Integers last, first = {0, axes_ + 1};  // orders of axes with the channels last, and second
    for (int64_t axis = 0; axis < axes_ + 2; ++axis)
      if (axis != 1) last.push_back(axis);
    last.push_back(1);
    for (int64_t axis = 1; axis <= axes_; ++axis) first.push_back(axis);
    x_ = node_.call("transpose", {x_}, {{"perm", last}});
    std::vector<Pixel> pixels = {{}};
    for (int axis = 0; axis < axes_; ++axis) {
      std::vector<Pixel> longer;
      for (const Tap& tap : taps(axis))
        for (Pixel pixel : pixels) {
          pixel.index.push_back(tap.index);
          if (tap.weight)
            pixel.weight =
                pixel.weight ? with("multiply", *pixel.weight, *tap.weight) : *tap.weight;
          longer.push_back(std::move(pixel));
        }
      pixels = std::move(longer);
    }
    Tensor sum = value_of(pixels[0]);
    for (size_t i = 1; i < pixels.size(); ++i) sum = with("add", sum, value_of(pixels[i]));
    return node_.call("transpose", {sum}, {{"perm", first}});
  }

 private:
  struct Tap {
    Tensor index;
    std::optional<Tensor> weight;  // none: 1
  };
  struct Pixel {
    Tensors index = {};  // along each axis
    std::optional<Tensor> weight = {};
  };

  Tensor with(std::string_view op, const Tensor& a, const Tensor& b) {
    return node_.call(op, {a, b});
  }
  Tensor with(std::string_view op, const Tensor& a, double b) {
    return node_.call(op, {a, NodeImport::scalar(b, a.dtype)});
  }

  /// Into the image again, from beyond the edge `low` or its opposite.
  Tensor reflected(const Tensor& at, double low, double range) {
    if (range == 0) return with("multiply", at, 0);
    const Tensor round = with("mod", with("subtract", at, low), 2 * range);
    const Tensor off = node_.call("abs", {with("subtract", round, range)});
    return node_.call("subtract", {NodeImport::scalar(low + range, at.dtype), off});
  }

  /// Places outside as padding_mode says; zeros have a weight of 0 later.
  Tensor inside(const Tensor& at, int64_t extent) {
    const double low = corners_ ? 0 : -0.5,
                 range = static_cast<double>(extent) - (corners_ ? 1 : 0);
    if (padding_ == "reflection") return reflected(at, low, range);
    if (padding_ == "border") return clipped(at, extent);
    return at;
  }

  Tensor clipped(const Tensor& at, int64_t extent) {
    return node_.call("clip_by_value", {at},
                      {{"min", 0.0}, {"max", static_cast<double>(extent - 1)}});
  }

  Tap tap(const Tensor& at, std::optional<Tensor> weight, int64_t extent) {
    if (padding_ == "zeros") {
      const Tensor is_inside = with("equal", at, clipped(at, extent));
      const Tensor one = node_.call("cast", {is_inside}, {{"dtype", at.dtype}});
      weight = weight ? with("multiply", *weight, one) : one;
    }
    const Tensor place = clipped(inside(at, extent), extent);
    return {node_.call("cast", {place}, {{"dtype", DType::kInt64}}), weight};
  }

  /// The weight of a pixel at `distance` under cubic interpolation, between the second and the
  /// third of four pixels (Keys, 1981, with a = -0.75).
  Tensor cubic_weight(const Tensor& distance, bool near) {
    constexpr double kA = -0.75;
    const std::array<double, 4> terms =
        near ? std::array{kA + 2, -(kA + 3), 0.0, 1.0} : std::array{kA, -5 * kA, 8 * kA, -4 * kA};
    Tensor sum = with("multiply", distance, terms[0]);
    for (const double term : {terms[1], terms[2]})
      sum = with("multiply", with("add", sum, term), distance);
    return with("add", sum, terms[3]);
  }

  std::vector<Tap> taps(int axis) {
    const int64_t extent = x_.shape[axis + 1];
    const auto size = static_cast<double>(extent);
    std::vector<std::string> index(static_cast<size_t>(axes_) + 2, ":");
    index.back() = fmt::format("{}:{}", axes_ - 1 - axis, axes_ - axis);  // x comes first
    Tensor at =
        node_.call("slice", {grid_}, {{"index", fmt::format("[{}]", fmt::join(index, ", "))}});
    at = corners_ ? with("multiply", with("add", at, 1), (size - 1) / 2)
                  : with("subtract", with("multiply", with("add", at, 1), size / 2), 0.5);
    if (mode_ == "nearest") return {tap(node_.call("round", {at}), {}, extent)};
    if (mode_ == "linear") at = inside(at, extent);
    const Tensor low = node_.call("floor", {at}), part = with("subtract", at, low);
    const Tensor rest = node_.call("subtract", {NodeImport::scalar(1, at.dtype), part});
    if (mode_ == "linear") return {tap(low, rest, extent), tap(with("add", low, 1), part, extent)};
    return {tap(with("subtract", low, 1), cubic_weight(with("add", part, 1), false), extent),
            tap(low, cubic_weight(part, true), extent),
            tap(with("add", low, 1), cubic_weight(rest, true), extent),
            tap(with("add", low, 2), cubic_weight(with("add", rest, 1), false), extent)};
  }

  Tensor value_of(const Pixel& pixel) {
    const Tensor index =
        axes_ == 1 ? pixel.index[0]
                   : node_.call("concat", pixel.index, {{"axis", static_cast<int64_t>(axes_) + 1}});
    Integers extents = index.shape.extents();
    extents.back() = x_.shape[axes_ + 1];
    const Tensor picked = node_.layer("gather_nd", {x_, index}, {{"batch_dims", int64_t{1}}},
                                      Shape(std::move(extents)), index.batch_axis);
    return pixel.weight ? with("multiply", picked, *pixel.weight) : picked;
  }

  NodeImport& node_;
  Tensor x_, grid_;
  int axes_;  // of an image
  std::string mode_, padding_;
  bool corners_ = false;
};

Tensors grid_sample(NodeImport& node) {
  node.pin_shapes();
  return {GridSample(node).run()};
}

constexpr ImportRule kImageImports[] = {
    {"GridSample", grid_sample}, {"Col2Im", columns_to_image},     {"Resize", resize},
    {"Upsample", resize},        {"DepthToSpace", depth_to_space}, {"SpaceToDepth", space_to_depth},
};

}  // namespace

std::span<const ImportRule> image_imports() { return kImageImports; }

}  // namespace flow::onnx
