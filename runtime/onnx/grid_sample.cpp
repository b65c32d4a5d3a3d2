// Samples images at the points of a grid.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// Samples images at the points of a grid. Each result is the weighted sum of the pixels around a
/// point.
class GridSample {
 public:
  explicit GridSample(NodeImport& node)
      : node_(node), x_(node.operand(0)), grid_(node.operand(1)), axes_(x_.shape.rank() - 2) {
    const Shape& grid = grid_.shape;
    if (axes_ < 1 || grid.rank() != axes_ + 2 || grid[axes_ + 1] != axes_ || grid[0] != x_.shape[0])
      refuse("a grid {} for {}", grid.str(), x_.shape.str());
    mode_ = node.text("mode", node.opset() < 20 ? "bilinear" : "linear");
    padding_ = node.text("padding_mode", "zeros");
    corners_ = node.integer("align_corners", 0) != 0;
    if (mode_.starts_with("bi")) mode_.erase(0, 2);  // names before opset 20 begin with "bi"
    constexpr std::array kModes = {"linear", "nearest", "cubic"};
    constexpr std::array kPaddings = {"zeros", "border", "reflection"};
    if (std::ranges::find(kModes, mode_) == kModes.end() ||
        std::ranges::find(kPaddings, padding_) == kPaddings.end())
      refuse("an unknown mode or padding_mode");
    if (mode_ == "cubic" && axes_ > 2) refuse("cubic of more than two axes");
  }

  Tensor run() {
    // These are the axis orders with the channels last, and with the channels second.
    Integers last, first = {0, axes_ + 1};
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
    std::optional<Tensor> weight;  // nothing means 1
  };
  struct Pixel {
    Tensors index = {};  // one index along each axis
    std::optional<Tensor> weight = {};
  };

  Tensor with(std::string_view op, const Tensor& a, const Tensor& b) {
    return node_.call(op, {a, b});
  }
  Tensor with(std::string_view op, const Tensor& a, double b) { return node_.call(op, a, b); }

  /// Reflects coordinates beyond the edge `low` or the opposite edge back into the image.
  Tensor reflected(const Tensor& at, double low, double range) {
    if (range == 0) return with("multiply", at, 0);
    const Tensor round = with("mod", with("subtract", at, low), 2 * range);
    const Tensor off = node_.call("abs", {with("subtract", round, range)});
    return node_.call("subtract", {NodeImport::scalar(low + range, at.dtype), off});
  }

  /// Moves coordinates outside the image as padding_mode requires. With zeros, they get a weight of
  /// 0 later.
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
      const Tensor one = node_.cast(is_inside, at.dtype);
      weight = weight ? with("multiply", *weight, one) : one;
    }
    const Tensor place = clipped(inside(at, extent), extent);
    return {node_.cast(place, DType::kInt64), weight};
  }

  /// Returns the weight of a pixel at `distance` under cubic interpolation (Keys, 1981, with a =
  /// -0.75). `near` is true for the two inner pixels of the four.
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
    // The grid stores x first.
    index.back() = fmt::format("{}:{}", axes_ - 1 - axis, axes_ - axis);
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
    const Tensor picked = node_.layer("gather_nd", {x_, index}, {{"batch_dims", 1}},
                                      Shape(std::move(extents)), index.batch_axis);
    return pixel.weight ? with("multiply", picked, *pixel.weight) : picked;
  }

  NodeImport& node_;
  Tensor x_, grid_;
  int axes_;  // spatial axes of an image
  std::string mode_, padding_;
  bool corners_ = false;
};

Tensors grid_sample(NodeImport& node) {
  node.pin_shapes();
  return {GridSample(node).run()};
}

constexpr Rule kGridRules[] = {
    {"", "GridSample", nullptr, grid_sample},
};

}  // namespace

std::span<const Rule> grid_rules() { return kGridRules; }

}  // namespace flow::onnx
