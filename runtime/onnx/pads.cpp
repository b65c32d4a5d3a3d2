// Padding, and cutting off the ends of axes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

void pad(StepExport& step) {
  const Integers& pairs = step.integers("paddings");
  Integers pads;
  for (const size_t side : {0, 1})
    for (size_t i = side; i < pairs.size(); i += 2) pads.push_back(pairs[i]);
  const auto& mode = step.attribute<std::string>("mode");
  Strings inputs = {step.in().name, step.vector(pads)};
  if (mode == "constant") inputs.push_back(step.number(step.attribute<double>("value")));
  step.result("Pad", inputs, {{"mode", std::string_view(mode)}});
}

/// Returns the pads of all axes from those of some axes.
Sizes pads_of_axes(const NodeImport& node, const Sizes& given, const Integers& axes) {
  const auto rank = static_cast<size_t>(node.rank());
  if (given.size() != 2 * axes.size()) refuse("pads of another number of axes");
  Sizes pads(2 * rank, fixed(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(node.axis(axes[i]));
    pads[axis] = given[i];
    pads[axis + rank] = given[i + axes.size()];
  }
  return pads;
}

/// Returns a part of x along an axis.
Tensor part_of(NodeImport& node, const Tensor& x, size_t axis, int64_t from, int64_t to) {
  std::vector<std::string> index(x.shape.extents().size(), ":");
  index[axis] = fmt::format("{}:{}", from, to);
  return node.call("slice", {x}, {{"index", fmt::format("[{}]", fmt::join(index, ", "))}});
}

/// Cuts off the ends that have negative pads, and sets these pads to 0. `pairs` contains the pads
/// of both sides of each axis.
Tensor without_ends(NodeImport& node, const Tensor& of, Integers& pairs) {
  Tensor x = of;
  for (size_t axis = 0; 2 * axis < pairs.size(); ++axis) {
    int64_t &begin = pairs[2 * axis], &end = pairs[2 * axis + 1];
    if (begin >= 0 && end >= 0) continue;
    const int64_t extent = x.shape.extents()[axis];
    if (begin <= -extent || end <= -extent) refuse("pads that leave nothing");
    x = part_of(node, x, axis, std::max<int64_t>(-begin, 0), extent + std::min<int64_t>(end, 0));
    begin = std::max<int64_t>(begin, 0);
    end = std::max<int64_t>(end, 0);
  }
  return x;
}

/// Pads each axis with the elements of its other end.
Tensor wrapped(NodeImport& node, const Tensor& of, const Integers& pairs) {
  Tensor x = of;
  for (size_t axis = 0; 2 * axis < pairs.size(); ++axis) {
    const int64_t extent = x.shape.extents()[axis], begin = pairs[2 * axis],
                  end = pairs[2 * axis + 1];
    if (begin > extent || end > extent) refuse("wrap pads longer than the axis");
    Tensors parts = {x};
    if (begin > 0) parts.insert(parts.begin(), part_of(node, x, axis, extent - begin, extent));
    if (end > 0) parts.push_back(part_of(node, x, axis, 0, end));
    if (parts.size() > 1) x = node.call("concat", parts, {{"axis", static_cast<int64_t>(axis)}});
  }
  return x;
}

Tensors pad(NodeImport& node) {
  Sizes pads =
      node.sizes("pads", 1).value_or(fixed(node.integers("paddings").value_or(Integers())));
  double value = node.number("value", 0);
  if (node.has(2)) {
    if (node.value(2).shape().elements() != 1) refuse("a pad value that is not one number");
    value = converted(node.value(2), DType::kFloat64).as<double>()[0];
  }
  const auto half = static_cast<size_t>(node.rank());
  if (node.has(3)) pads = pads_of_axes(node, pads, node.values_as_int64(3));
  if (pads.size() != 2 * half) refuse("pads of another number of dimensions");
  const std::string mode = node.text("mode", "constant");
  Integers pairs;
  const bool cuts = std::ranges::any_of(pads, [](const Size& pad) { return pad.value < 0; });
  const bool are_plain = !cuts && mode != "wrap";
  if (!are_plain) node.pin(pads);
  if (!are_plain) node.pin(node.in(0).sizes);
  for (size_t i = 0; i < half; ++i)
    for (const size_t side : {i, i + half}) pairs.push_back(pads[side].value);
  const Tensor x = without_ends(node, node.operand(0), pairs);
  if (are_all(pairs, 0) && (cuts || are_fixed(pads))) return {x};
  if (mode == "wrap") return {wrapped(node, x, pairs)};
  Sizes sizes;
  std::vector<std::string> texts;
  for (size_t i = 0; i < half && are_plain; ++i) {
    texts.push_back(fmt::format("[{}, {}]", node.text(pads[i]), node.text(pads[i + half])));
    sizes.push_back(*without_text(
        {x.size(static_cast<int>(i)), pads[i], pads[i + half]},
        [](const Integers& values) { return std::optional(values[0] + values[1] + values[2]); }));
  }
  const bool follow = are_plain && !are_fixed(pads);
  Tensor made = node.call(
      "pad", {x}, {{"paddings", pairs}, {"mode", mode}, {"value", value}},
      follow ? Texts{{"paddings", fmt::format("[{}]", fmt::join(texts, ", "))}} : Texts());
  if (follow) made.sizes = sizes;
  return {made};
}

/// Crops each axis to its middle, or pads it with zeros on both sides.
Tensors center_crop_pad(NodeImport& node) {
  const Integers sizes = node.values_as_int64(1);
  node.pin_shapes();
  Integers axes(sizes.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.integers("axes").value_or(axes);
  if (axes.size() != sizes.size()) refuse("{} sizes for {} axes", sizes.size(), axes.size());
  Integers pairs(2 * static_cast<size_t>(node.rank()), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = node.axis(axes[i]);
    if (sizes[i] < 1 || sizes[i] > ops::kMaxSize) refuse("a size of {}", sizes[i]);
    const int64_t added = sizes[i] - node.in(0).shape[axis];
    const auto begin = 2 * static_cast<size_t>(axis);
    pairs[begin] = added / 2;  // rounded toward 0
    pairs[begin + 1] = added - pairs[begin];
  }
  const Tensor x = without_ends(node, node.operand(0), pairs);
  if (are_all(pairs, 0)) return {x};
  return {node.call("pad", {x}, {{"paddings", pairs}, {"mode", "constant"}, {"value", 0.0}})};
}

constexpr Rule kPadRules[] = {
    {"pad", "Pad", pad, pad},
    {"", "CenterCropPad", nullptr, center_crop_pad},
};

}  // namespace

std::span<const Rule> pad_rules() { return kPadRules; }

}  // namespace flow::onnx
