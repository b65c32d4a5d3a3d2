// Normalizations by root mean squares, of groups and by norms.
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// Along some axes, which stay.
Tensor reduced(NodeImport& node, std::string_view op, const Tensor& x, const Integers& axes) {
  return node.call(op, {x}, {{"axis", axes}, {"keepdims", true}});
}

Integers axes_from(int first, int rank) {
  Integers axes(static_cast<size_t>(rank - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

Tensor times(NodeImport& node, const Tensor& a, const Tensor& b) {
  return node.call("multiply", {a, b});
}

/// 1 / sqrt(mean(x^2) + epsilon), along axes that stay.
Tensor inverse_root(NodeImport& node, const Tensor& x, const Integers& axes, double epsilon) {
  const Tensor mean = reduced(node, "reduce_mean", node.call("square", {x}), axes);
  return node.call("rsqrt", {node.call("add", {mean, NodeImport::scalar(epsilon, x.dtype)})});
}

/// Is operand i a constant of that shape?
bool is_weight(const NodeImport& node, int i, const Shape& shape) {
  return node.in(i).value && node.in(i).shape == shape && node.is_float(i);
}

Tensors rms_normalization(NodeImport& node) {
  node.ignore("stash_type");
  const Tensor x = node.operand(0);
  const int axis = node.axis(node.integer("axis", -1)), rank = x.shape.rank();
  const double epsilon = node.number("epsilon", 1e-5);
  if (is_weight(node, 1, x.shape.from(axis)))
    return {node.layer("rms_norm", {x},
                       {{"axis", int64_t{axis == rank - 1 ? -1 : axis}}, {"epsilon", epsilon}},
                       x.shape, x.batch_axis, {{"gamma", node.value(1)}}, {1})};
  const Tensor root = inverse_root(node, x, axes_from(axis, rank), epsilon);
  return {times(node, times(node, x, root), node.operand(1))};
}

/// With its mean and the inverse of its deviation.
Tensors layer_normalization(NodeImport& node) {
  node.ignore("stash_type");
  const Tensor x = node.operand(0);
  const int axis = node.axis(node.integer("axis", -1)), rank = x.shape.rank();
  const double epsilon = node.number("epsilon", 1e-5);
  const Shape row = x.shape.from(axis);
  const bool is_layer = is_weight(node, 1, row) && (!node.has(2) || is_weight(node, 2, row));
  Tensors results(3);
  if (is_layer) {
    std::map<std::string, Array> weights = {{"gamma", node.value(1)}};
    if (node.has(2)) weights.emplace("beta", node.value(2));
    results[0] = node.layer("layer_norm", {x},
                            {{"axis", int64_t{axis == rank - 1 ? -1 : axis}},
                             {"epsilon", epsilon},
                             {"center", node.has(2)}},
                            x.shape, x.batch_axis, std::move(weights), {1, 2});
    if (!node.is_read(1) && !node.is_read(2)) return results;
  }
  const Integers axes = axes_from(axis, rank);
  results[1] = reduced(node, "reduce_mean", x, axes);
  const Tensor centered = node.call("subtract", {x, results[1]});
  results[2] = inverse_root(node, centered, axes, epsilon);
  if (is_layer) return results;
  results[0] = times(node, times(node, centered, results[2]), node.operand(1));
  if (node.has(2)) results[0] = node.call("add", {results[0], node.operand(2)});
  return results;
}

/// Before opset 21, weights are those of groups.
Tensors group_normalization(NodeImport& node) {
  node.ignore("stash_type");
  const Tensor x = node.operand(0);
  const int64_t groups = node.integer("num_groups", 0);
  if (x.shape.rank() < 3 || groups < 1 || x.shape[1] % groups != 0)
    throw Unsupported(fmt::format("{} groups of {}", groups, x.shape.str()));
  const int64_t each = node.opset() < 21 ? groups : x.shape[1];
  std::map<std::string, Array> weights;
  for (const auto& [name, i] : {std::pair("gamma", 1), std::pair("beta", 2)}) {
    const Array& given = node.value(i);
    if (given.shape() != Shape{each})
      throw Unsupported(
          fmt::format("operand {} is {}; expected [{}]", i + 1, given.shape().str(), each));
    Array all(DType::kFloat64, Shape{x.shape[1]});
    const Array wide = converted(given, DType::kFloat64);
    for (int64_t channel = 0; channel < x.shape[1]; ++channel)
      all.as<double>()[static_cast<size_t>(channel)] =
          wide.as<double>()[static_cast<size_t>(channel * each / x.shape[1])];
    weights.emplace(name, std::move(all));
  }
  return {node.layer("group_norm", {x},
                     {{"groups", groups}, {"epsilon", node.number("epsilon", 1e-5)}}, x.shape,
                     x.batch_axis, std::move(weights), {1, 2})};
}

/// Rows of zeros stay.
Tensors lp_normalization(NodeImport& node) {
  const Tensor x = node.operand(0);
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) throw Unsupported(fmt::format("the norm {}", p));
  const Integers axes = {node.axis(node.integer("axis", -1))};
  Tensor norm = reduced(node, "reduce_sum", node.call(p == 1 ? "abs" : "square", {x}), axes);
  if (p == 2) norm = node.call("sqrt", {norm});
  const Tensor is_zero = node.call("equal", {norm, NodeImport::scalar(0, x.dtype)});
  const Tensor divisor = node.call("where", {is_zero, NodeImport::scalar(1, x.dtype), norm});
  return {node.call("divide", {x, divisor})};
}

constexpr ImportRule kNormalizationImports[] = {
    {"LayerNormalization", layer_normalization},
    {"RMSNormalization", rms_normalization},
    {"GroupNormalization", group_normalization},
    {"LpNormalization", lp_normalization},
};

}  // namespace

std::span<const ImportRule> normalization_imports() { return kNormalizationImports; }

}  // namespace flow::onnx
