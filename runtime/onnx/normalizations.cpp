// Normalizations: by statistics, by root mean squares, of groups, and by norms.
#include <numeric>
#include <utility>

#include "runtime/base/element_types.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// Writes (x - mean) / sqrt(variance + epsilon) gamma + beta along an axis. Operands 0 to 2 are x,
/// gamma and beta.
void normalize_along(StepExport& step, int axis, const std::string& mean,
                     const std::string& variance) {
  const int rank = step.in().shape.rank();
  const auto vector = [&](const std::string& name) { return step.along(name, axis, rank); };
  const std::string epsilon = step.number(step.attribute<double>("epsilon"));
  const std::string deviation = step.node("Sqrt", {step.node("Add", {variance, epsilon})});
  const std::string factor = step.node("Div", {step.in(1).name, deviation});
  const std::string centered = step.node("Sub", {step.in(0).name, vector(mean)});
  step.result("Add", {step.node("Mul", {centered, vector(factor)}), vector(step.in(2).name)});
}

/// ONNX's BatchNormalization expects channels along axis 1.
void batch_norm_predict(StepExport& step) {
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  if (axis == 1)
    return step.result("BatchNormalization", step.names(), {{"epsilon", step.float32("epsilon")}});
  normalize_along(step, axis, step.in(3).name, step.in(4).name);
}

/// Normalizes by the statistics of the batch, for an entry with `training: true`.
void batch_norm(StepExport& step) {
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  Integers others;
  for (int i = 0; i < step.in().shape.rank(); ++i)
    if (i != axis) others.push_back(i);
  const auto mean_of = [&](const std::string& name, int64_t keepdims) {
    return step.node("ReduceMean", {name}, {{"axes", others}, {"keepdims", keepdims}});
  };
  const std::string centered = step.node("Sub", {step.in().name, mean_of(step.in().name, 1)});
  const std::string mean = mean_of(step.in().name, 0);
  const std::string variance = mean_of(step.node("Mul", {centered, centered}), 0);
  normalize_along(step, axis, mean, variance);
  if (step.is_read(1)) step.result("Identity", {mean}, {}, 1);
  if (step.is_read(2)) step.result("Identity", {variance}, {}, 2);
}

void layer_normalize(StepExport& step) {
  step.result("LayerNormalization", step.names(),
              {{"axis", step.attribute<int64_t>("axis")}, {"epsilon", step.float32("epsilon")}});
}

void rms_normalize(StepExport& step) {
  const std::string& x = step.in().name;
  Integers axes;
  for (auto axis = step.attribute<int64_t>("axis"); axis < step.in().shape.rank(); ++axis)
    axes.push_back(axis);
  const std::string mean =
      step.node("ReduceMean", {step.node("Mul", {x, x})}, {{"axes", axes}, {"keepdims", 1}});
  const std::string epsilon = step.number(step.attribute<double>("epsilon"));
  const std::string root = step.node("Sqrt", {step.node("Add", {mean, epsilon})});
  step.result("Mul", {step.node("Div", {x, root}), step.in(1).name});
}

/// GroupNormalization requires opset 18. Instead, the groups are the channels of an
/// InstanceNormalization without scaling.
void group_normalize(StepExport& step) {
  const Value& x = step.in();
  const auto groups = step.attribute<int64_t>("groups");
  const Shape grouped = {x.shape[0], groups, x.shape.elements(1, x.shape.rank()) / groups};
  Array ones(x.dtype, Shape{groups});
  const Array zeros(x.dtype, Shape{groups});
  visit_float(x.dtype, [&](auto zero) {
    for (auto& one : ones.as<decltype(zero)>()) one = 1;
  });
  const std::string normalized =
      step.node("InstanceNormalization",
                {step.reshape(x.name, grouped, x.batch_axis), step.constant(ones.view()),
                 step.constant(zeros.view())},
                {{"epsilon", step.float32("epsilon")}});
  const std::string back = step.reshape(normalized, x.shape, x.batch_axis);
  const auto channels = [&](size_t i) { return step.along(step.in(i).name, 1, x.shape.rank()); };
  step.result("Add", {step.node("Mul", {back, channels(1)}), channels(2)});
}

/// Returns the operands after the first one as variables, each of which has this shape.
std::map<std::string, Array> vectors(NodeImport& node, const std::vector<std::string>& names,
                                     const Shape& shape) {
  std::map<std::string, Array> arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    const Array& array = node.value(static_cast<int>(i) + 1);
    if (array.shape() != shape)
      refuse("operand {} is {}; expected {}", i + 2, array.shape().str(), shape.str());
    arrays.emplace(names[i], array);
  }
  return arrays;
}

double epsilon_of(NodeImport& node) { return node.number("epsilon", 1e-5); }

Tensors batch_normalization(NodeImport& node) {
  if (node.integer("training_mode", 0) != 0) refuse("statistics of the batch (training_mode)");
  for (const std::string_view name : {"momentum", "is_test", "spatial", "consumed_inputs"})
    node.ignore(name);
  const Tensor x = node.operand(0);
  if (x.shape.rank() < 2) refuse("operand {}; expected (N, C, ...)", x.shape.str());
  auto weights =
      vectors(node, {"gamma", "beta", "moving_mean", "moving_variance"}, Shape{x.shape[1]});
  return {node.layer("batch_normalization", {x}, {{"epsilon", epsilon_of(node)}}, x.shape,
                     x.batch_axis, std::move(weights), {1, 2, 3, 4})};
}

Tensors instance_normalization(NodeImport& node) {
  const Tensor x = node.operand(0);
  if (x.shape.rank() < 3) refuse("operand {}; expected (N, C, ...)", x.shape.str());
  node.ignore("consumed_inputs");
  return {node.layer("instance_norm", {x}, {{"epsilon", epsilon_of(node)}}, x.shape, x.batch_axis,
                     vectors(node, {"gamma", "beta"}, Shape{x.shape[1]}), {1, 2})};
}

/// An even size is rejected, because ONNX and the op place the window differently around the middle
/// channel.
Tensors local_response_normalization(NodeImport& node) {
  const Tensor x = node.operand(0);
  const int64_t size = node.integer("size", 0);
  if (x.shape.rank() < 2 || size < 1 || size > ops::kMaxSize || size % 2 == 0)
    refuse("the size {} for {}", size, x.shape.str());
  return {node.layer("local_response_norm", {x},
                     {{"size", size},
                      {"alpha", node.number("alpha", 1e-4)},
                      {"beta", node.number("beta", 0.75)},
                      {"k", node.number("bias", 1)}},
                     x.shape, x.batch_axis)};
}

Tensors mean_variance_normalization(NodeImport& node) {
  const Integers axes = node.integers("axes").value_or(Integers{0, 2, 3});
  const Tensor x = node.operand(0);
  const auto mean = [&](const Tensor& of) {
    return node.call("reduce_mean", {of}, {{"axis", axes}, {"keepdims", true}});
  };
  const Tensor centered = node.call("subtract", {x, mean(x)});
  const Tensor deviation = node.call("sqrt", {mean(node.call("square", {centered}))});
  constexpr double kLeast = 1e-9;  // as in ONNX's definition
  const Tensor divisor = node.call("add", deviation, kLeast);
  return {node.call("divide", {centered, divisor})};
}

/// Reduces along axes that are kept with extent 1.
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

/// Returns 1 / sqrt(mean(x^2) + epsilon), reduced along axes that are kept with extent 1.
Tensor inverse_root(NodeImport& node, const Tensor& x, const Integers& axes, double epsilon) {
  const Tensor mean = reduced(node, "reduce_mean", node.call("square", {x}), axes);
  return node.call("rsqrt", {node.call("add", mean, epsilon)});
}

/// Returns true if operand i is a constant of this shape.
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

/// Returns the result, the mean, and the inverse of the standard deviation.
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

/// Before opset 21, there is one weight for each group.
Tensors group_normalization(NodeImport& node) {
  node.ignore("stash_type");
  const Tensor x = node.operand(0);
  const int64_t groups = node.integer("num_groups", 0);
  if (x.shape.rank() < 3 || groups < 1 || x.shape[1] % groups != 0)
    refuse("{} groups of {}", groups, x.shape.str());
  const int64_t each = node.opset() < 21 ? groups : x.shape[1];
  std::map<std::string, Array> weights;
  for (const auto& [name, i] : {std::pair("gamma", 1), std::pair("beta", 2)}) {
    const Array& given = node.value(i);
    if (given.shape() != Shape{each})
      refuse("operand {} is {}; expected [{}]", i + 1, given.shape().str(), each);
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

/// Rows of zeros do not change.
Tensors lp_normalization(NodeImport& node) {
  const Tensor x = node.operand(0);
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) refuse("the norm {}", p);
  const Integers axes = {node.axis(node.integer("axis", -1))};
  Tensor norm = reduced(node, "reduce_sum", node.call(p == 1 ? "abs" : "square", {x}), axes);
  if (p == 2) norm = node.call("sqrt", {norm});
  const Tensor is_zero = node.call("equal", norm, 0);
  const Tensor divisor = node.call("where", {is_zero, NodeImport::scalar(1, x.dtype), norm});
  return {node.call("divide", {x, divisor})};
}

constexpr Rule kNormalizationRules[] = {
    {"batch_norm", "", batch_norm},
    {"batch_norm_predict", "BatchNormalization", batch_norm_predict, batch_normalization},
    {"", "InstanceNormalization", nullptr, instance_normalization},
    {"", "LRN", nullptr, local_response_normalization},
    {"", "MeanVarianceNormalization", nullptr, mean_variance_normalization},
    {"layer_normalize", "LayerNormalization", layer_normalize, layer_normalization},
    {"rms_normalize", "RMSNormalization", rms_normalize, rms_normalization},
    {"group_normalize", "GroupNormalization", group_normalize, group_normalization},
    {"", "LpNormalization", nullptr, lp_normalization},
};

}  // namespace

std::span<const Rule> normalization_rules() { return kNormalizationRules; }

}  // namespace flow::onnx
