// Nodes of products, convolutions, pools, normalizations and attention.
#include <limits>
#include <utility>

#include "runtime/base/visit.h"
#include "runtime/onnx/step_export.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Strings = std::vector<std::string>;

/// The value with its last two axes exchanged.
std::string transposed(StepExport& step, const std::string& name, int rank) {
  Integers perm;
  for (int64_t axis = 0; axis < rank; ++axis) perm.push_back(axis);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return step.node("Transpose", {name}, {{"perm", perm}});
}

/// A matrix of ONNX's Gemm is transposed by it, others by a node.
void matmul(StepExport& step) {
  const bool a = step.attribute<bool>("transpose_a"), b = step.attribute<bool>("transpose_b");
  if (step.in(0).shape.rank() == 2 && step.in(1).shape.rank() == 2)
    return step.result("Gemm", step.names(), {{"transA", int64_t{a}}, {"transB", int64_t{b}}});
  const auto side = [&](const Value& value, bool turned) {
    return turned ? transposed(step, value.name, value.shape.rank()) : value.name;
  };
  for (const size_t i : {0, 1}) step.fix_batch_of_constant(i, 2);
  const Strings sides = {side(step.in(0), a), side(step.in(1), b)};
  if (step.operands() == 2) return step.result("MatMul", sides);
  step.result("Add", {step.node("MatMul", sides), step.in(2).name});
}

void bias_add(StepExport& step) {
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  step.result("Add", {step.in(0).name, step.along(step.in(1).name, axis, step.in(0).shape.rank())});
}

/// Top, bottom, left, right as ONNX has them: all starts before all ends.
Integers pads_of(const StepExport& step) {
  const Integers& padding = step.integers("padding");
  return {padding[0], padding[2], padding[1], padding[3]};
}

NodeAttributes window_attributes(const StepExport& step) {
  const Shape& weight = step.in(1).shape;
  return {{"kernel_shape", Integers{weight[2], weight[3]}},
          {"strides", step.integers("strides")},
          {"pads", pads_of(step)},
          {"dilations", step.integers("dilation")},
          {"group", step.attribute<int64_t>("groups")}};
}

void convolution(StepExport& step) { step.result("Conv", step.names(), window_attributes(step)); }

/// The gradient of a convolution with respect to its input.
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
               {"pads", pads_of(step)}});
}

float epsilon_of(const StepExport& step) {
  return static_cast<float>(step.attribute<double>("epsilon"));
}

/// (x - mean) / sqrt(variance + epsilon) gamma + beta along an axis, of operands in that order.
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

/// BatchNormalization takes channels along axis 1.
void batch_norm_predict(StepExport& step) {
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  if (axis == 1)
    return step.result("BatchNormalization", step.names(), {{"epsilon", epsilon_of(step)}});
  normalize_along(step, axis, step.in(3).name, step.in(4).name);
}

/// By statistics of the batch, in an entry with `training: true`.
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
              {{"axis", step.attribute<int64_t>("axis")}, {"epsilon", epsilon_of(step)}});
}

void rms_normalize(StepExport& step) {
  const std::string& x = step.in().name;
  Integers axes;
  for (auto axis = step.attribute<int64_t>("axis"); axis < step.in().shape.rank(); ++axis)
    axes.push_back(axis);
  const std::string mean = step.node("ReduceMean", {step.node("Mul", {x, x})},
                                     {{"axes", axes}, {"keepdims", int64_t{1}}});
  const std::string epsilon = step.number(step.attribute<double>("epsilon"));
  const std::string root = step.node("Sqrt", {step.node("Add", {mean, epsilon})});
  step.result("Mul", {step.node("Div", {x, root}), step.in(1).name});
}

/// GroupNormalization is of opset 18: here groups are the channels of an InstanceNormalization,
/// which scales nothing.
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
                {{"epsilon", epsilon_of(step)}});
  const std::string back = step.reshape(normalized, x.shape, x.batch_axis);
  const auto channels = [&](size_t i) { return step.along(step.in(i).name, 1, x.shape.rank()); };
  step.result("Add", {step.node("Mul", {back, channels(1)}), channels(2)});
}

/// Query i attends to keys 0 to i.
std::string causal_mask(StepExport& step, int64_t queries, int64_t keys) {
  Array mask(DType::kBool, Shape{queries, keys});
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) mask.as<bool>()[static_cast<size_t>(i * keys + j)] = j <= i;
  return step.constant(mask.view());
}

/// What lets a query attend to a key; empty where all may.
std::string mask_of(StepExport& step) {
  const Shape &query = step.in(0).shape, &key = step.in(1).shape;
  const int row = query.rank() - 2;
  const std::string given = step.operands() > 3 ? step.in(3).name : "";
  if (!step.attribute<bool>("causal")) return given;
  if (step.in(0).batch_axis == row) step.fix_batch();
  const std::string causal = causal_mask(step, query[row], key[row]);
  return given.empty() ? causal : step.node("And", {given, causal});
}

/// A query that attends to no key gets 0, not the mean of all values.
void attention(StepExport& step) {
  for (size_t i = 0; i < step.operands(); ++i) step.fix_batch_of_constant(i, i < 3 ? 2 : 0);
  const int rank = step.in(0).shape.rank();
  const std::string keys = transposed(step, step.in(1).name, rank);
  std::string scores = step.node("Mul", {step.node("MatMul", {step.in(0).name, keys}),
                                         step.number(step.attribute<double>("scale"))});
  const std::string mask = mask_of(step);
  const bool is_double = step.in().dtype == DType::kFloat64;
  const double lowest = is_double ? std::numeric_limits<double>::lowest()
                                  : double{std::numeric_limits<float>::lowest()};
  if (!mask.empty()) scores = step.node("Where", {mask, scores, step.number(lowest)});
  std::string weights = step.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (step.operands() > 3) weights = step.node("Where", {mask, weights, step.number(0)});
  step.result("MatMul", {weights, step.in(2).name});
  if (step.is_read(1))
    step.result("ReduceLogSumExp", {scores},
                {{"axes", Integers{rank - 1}}, {"keepdims", int64_t{0}}}, 1);
}

constexpr ExportRule kLayers[] = {
    {"matmul", matmul},
    {"bias_add", bias_add},
    {"convolution", convolution},
    {"convolution_grad_data", transposed_convolution},
    {"max_pool2d", pool, "MaxPool"},
    {"avg_pool2d", pool, "AveragePool"},
    {"batch_norm", batch_norm},
    {"batch_norm_predict", batch_norm_predict},
    {"layer_normalize", layer_normalize},
    {"rms_normalize", rms_normalize},
    {"group_normalize", group_normalize},
    {"scaled_dot_product_attention", attention},
};

}  // namespace

std::span<const ExportRule> layer_rules() { return kLayers; }

}  // namespace flow::onnx
