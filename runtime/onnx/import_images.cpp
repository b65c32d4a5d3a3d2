// Images in another size, channels that become pixels, and windows that become images.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// Height and width that images get, and the factor where it does not follow from these.
struct NewSize {
  Integers size;
  std::optional<double> scale = {};
};

void require_images(const NodeImport& node) {
  if (node.rank() != 4) throw Unsupported(fmt::format("operand {}", node.in(0).shape.str()));
}

/// Are the first two the batch and the channels, which stay?
void require_four(const Shape& shape, const Integers& extents) {
  if (extents.size() != 4 || extents[0] != shape[0] || extents[1] != shape[1] || extents[2] < 1 ||
      extents[3] < 1)
    throw Unsupported(fmt::format("{} resized to {}", shape.str(), Shape(extents).str()));
}

NewSize size_by_scales(const Shape& shape, const std::vector<double>& scales,
                       std::string_view coordinates) {
  Integers extents;
  bool exact = true;
  for (size_t i = 0; i < scales.size() && i < shape.extents().size(); ++i) {
    const double extent = static_cast<double>(shape.extents()[i]) * scales[i];
    if (!(extent >= 0 && extent <= static_cast<double>(ops::kMaxSize)))
      throw Unsupported(fmt::format("a scale of {}", scales[i]));
    extents.push_back(static_cast<int64_t>(std::floor(extent)));
    exact &= std::floor(extent) == extent;
  }
  require_four(shape, extents);
  if (exact) return {{extents[2], extents[3]}};
  if (scales[2] != scales[3]) throw Unsupported("two scales that leave a fraction of a pixel");
  if (coordinates == "align_corners")
    throw Unsupported("corners of a size with a fraction of a pixel");
  return {{}, scales[2]};
}

/// Scales are an attribute, operand 1 or operand 2; sizes are operand 3.
NewSize new_size(NodeImport& node, std::string_view coordinates) {
  const Shape& shape = node.in(0).shape;
  std::vector<double> scales;
  if (const auto* found = node.find("scales", pb::AttributeProto::FLOATS)) {
    for (const float scale : found->floats()) scales.push_back(shortest_double(scale));
    return size_by_scales(shape, scales, coordinates);
  }
  const bool old = node.type() == "Upsample" || node.opset() < 11;
  const int at = old ? 1 : 2;
  if (node.has(at) && node.in(at).shape.elements() > 0) {
    const Array given = converted(node.value(at), DType::kFloat32);
    for (const float scale : given.as<float>()) scales.push_back(shortest_double(scale));
    return size_by_scales(shape, scales, coordinates);
  }
  if (old) throw Unsupported("no scales");
  const Integers extents = node.values_as_int64(3);
  require_four(shape, extents);
  return {{extents[2], extents[3]}};
}

/// Where pixels are. PyTorch's half pixels differ for a single one alone.
std::string coordinates_of(NodeImport& node) {
  const bool old = node.type() == "Upsample" || node.opset() < 11;
  std::string coordinates =
      node.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  constexpr std::array kKnown = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"};
  if (std::ranges::find(kKnown, coordinates) == kKnown.end())
    throw Unsupported("other coordinates than of half pixels, corners or edges");
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

Tensors resize(NodeImport& node) {
  require_images(node);
  const std::string mode = node.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear" && mode != "cubic")
    throw Unsupported("an unknown mode");
  if (node.integer("antialias", 0) != 0) throw Unsupported("antialias");
  std::string coordinates = coordinates_of(node);
  const NewSize wanted = new_size(node, coordinates);
  if (coordinates == "pytorch_half_pixel") {
    if (std::ranges::count(wanted.size, 1) > 0)
      throw Unsupported("a size of 1 (pytorch_half_pixel)");
    coordinates = "half_pixel";
  }
  ops::Attributes attributes = resize_attributes(node, mode);
  attributes.set("coordinates", coordinates);
  attributes.set("size", wanted.size);
  attributes.set("scale", wanted.scale.value_or(0));
  return {node.call("resize", {node.operand(0)}, attributes)};
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

Tensors depth_to_space(NodeImport& node) {
  const int64_t size = block_size(node);
  const std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") throw Unsupported("an unknown mode");
  const Tensor x = node.operand(0);
  if (size > x.shape[1] || x.shape[1] % (size * size) != 0) refuse_blocks(node, size);
  return {node.layer("pixel_shuffle", {x},
                     {{"factor", size}, {"mode", mode == "DCR" ? "dcr" : "crd"}},
                     {x.shape[0], x.shape[1] / (size * size), x.shape[2] * size, x.shape[3] * size},
                     x.batch_axis)};
}

Tensors space_to_depth(NodeImport& node) {
  const int64_t size = block_size(node);
  const Tensor x = node.operand(0);
  if (x.shape[2] % size != 0 || x.shape[3] % size != 0) refuse_blocks(node, size);
  return {node.layer("pixel_unshuffle", {x}, {{"factor", size}, {"mode", "dcr"}},
                     {x.shape[0], x.shape[1] * size * size, x.shape[2] / size, x.shape[3] / size},
                     x.batch_axis)};
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

constexpr ImportRule kImageImports[] = {
    {"Col2Im", columns_to_image},
    {"Resize", resize},
    {"Upsample", resize},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
};

}  // namespace

std::span<const ImportRule> image_imports() { return kImageImports; }

}  // namespace flow::onnx
