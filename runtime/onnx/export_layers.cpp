// Nodes of products, convolutions, pools, normalizations and attention.
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "ops/attention/problem.h"
#include "ops/rope/frequencies.h"
#include "runtime/base/element_types.h"
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

NodeAttributes window_attributes(const StepExport& step) {
  const Shape& weight = step.in(1).shape;
  return {{"kernel_shape", Integers{weight[2], weight[3]}},
          {"strides", step.integers("strides")},
          {"pads", step.pads()},
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
               {"pads", step.pads()}});
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

/// The nodes of attention. Opset 17 has no operator for it.
class AttentionExport {
 public:
  explicit AttentionExport(StepExport& step)
      : step_(step),
        at_(ops::AttentionOperands::find(false, step.operands(),
                                         [&](size_t i) { return step.in(i).dtype; })),
        rank_(query().rank()),
        group_(rank_ > 3 ? query()[rank_ - 3] / step.in(1).shape[rank_ - 3] : 1) {}

  /// A query that attends to no key gets 0, not the mean of all values.
  void write() {
    for (size_t i = 0; i < step_.operands(); ++i)
      if (i != at_.lengths) step_.fix_batch_of_constant(i, i < 3 ? 2 : 0);
    const std::string turned = transposed(step_, step_.in(1).name, rank_);
    std::string scores = step_.node("Mul", {product(step_.in(0).name, query(), turned,
                                                    with_last(step_.in(1).shape, depth(), keys())),
                                            step_.number(step_.attribute<double>("scale"))});
    if (at_.bias) scores = step_.node("Add", {scores, step_.in(*at_.bias).name});
    const std::string mask = mask_of_all();
    if (!mask.empty()) scores = step_.node("Where", {mask, scores, step_.number(lowest())});
    std::string weights = step_.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
    if (may_see_nothing()) weights = step_.node("Where", {mask, weights, step_.number(0)});
    product_to_result(weights);
    if (step_.is_read(1))
      step_.result("ReduceLogSumExp", {scores},
                   {{"axes", Integers{rank_ - 1}}, {"keepdims", int64_t{0}}}, 1);
  }

 private:
  const Shape& query() const { return step_.in(0).shape; }
  int64_t queries() const { return query()[rank_ - 2]; }
  int64_t keys() const { return step_.in(1).shape[rank_ - 2]; }
  int64_t depth() const { return query()[rank_ - 1]; }
  double lowest() const {
    return step_.in().dtype == DType::kFloat64 ? std::numeric_limits<double>::lowest()
                                               : double{std::numeric_limits<float>::lowest()};
  }
  /// A causal mask alone lets each query attend to a key, but before the first one or in a window
  /// behind the last one.
  bool may_see_nothing() const {
    return at_.mask || at_.lengths || diagonal() < 0 ||
           (window() > 0 && queries() + diagonal() - window() >= keys());
  }
  int64_t diagonal() const {
    return step_.has("diagonal") ? step_.attribute<int64_t>("diagonal") : 0;
  }
  int64_t window() const { return step_.has("window") ? step_.attribute<int64_t>("window") : 0; }

  static Shape with_last(Shape shape, int64_t rows, int64_t columns) {
    shape[shape.rank() - 2] = rows;
    shape[shape.rank() - 1] = columns;
    return shape;
  }

  /// [N, H, ...] as [N, K, H / K, ...]: along that axis, groups of heads share their keys.
  Shape grouped(const Shape& shape, int64_t heads) const {
    std::vector<int64_t> extents(shape.begin(), shape.end());
    extents[static_cast<size_t>(rank_) - 3] = step_.in(1).shape[rank_ - 3];
    extents.insert(extents.end() - 2, heads);
    return Shape(std::move(extents));
  }

  std::string reshape(const std::string& value, const Shape& shape) {
    const int batch_axis = step_.in(0).batch_axis;
    const bool split = shape.rank() > rank_;
    if (batch_axis == rank_ - 3) step_.fix_batch();
    if (batch_axis < 0 || batch_axis == rank_ - 3) return step_.reshape(value, shape, -1);
    return step_.reshape(value, shape, batch_axis + (split && batch_axis > rank_ - 3 ? 1 : 0));
  }

  /// A product of matrices with keys or values, which groups of heads share.
  std::string product(const std::string& left, const Shape& left_shape, const std::string& right,
                      const Shape& right_shape) {
    if (group_ == 1) return step_.node("MatMul", {left, right});
    const std::string made = step_.node(
        "MatMul", {reshape(left, grouped(left_shape, group_)), reshape_shared(right, right_shape)});
    return reshape(made, with_last(query(), left_shape[rank_ - 2], right_shape[rank_ - 1]));
  }

  /// Keys and values have their own axis of rows.
  std::string reshape_shared(const std::string& value, const Shape& shape) {
    const int batch_axis = step_.in(1).batch_axis;
    const bool leads = batch_axis >= 0 && batch_axis < rank_ - 3;
    if (batch_axis >= 0 && !leads) step_.fix_batch();
    return step_.reshape(value, grouped(shape, 1), leads ? batch_axis : -1);
  }

  void product_to_result(const std::string& weights) {
    const Value& value = step_.in(2);
    if (group_ == 1) return step_.result("MatMul", {weights, value.name});
    const Shape scores = with_last(query(), queries(), keys());
    step_.result("Identity", {product(weights, scores, value.name, value.shape)});
  }

  /// What lets a query attend to a key; empty where all may.
  std::string mask_of_all() {
    std::string mask = at_.mask ? step_.in(*at_.mask).name : "";
    if (step_.attribute<bool>("causal")) mask = both(mask, causal_mask());
    return at_.lengths ? both(mask, mask_of_lengths()) : mask;
  }
  std::string both(const std::string& mask, const std::string& other) {
    return mask.empty() ? other : step_.node("And", {mask, other});
  }

  /// Query i attends to keys up to i + diagonal, or to the window's last of those.
  std::string causal_mask() {
    if (step_.in(0).batch_axis == rank_ - 2) step_.fix_batch();
    Array mask(DType::kBool, Shape{queries(), keys()});
    for (int64_t i = 0; i < queries(); ++i)
      for (int64_t j = 0; j < keys(); ++j)
        mask.as<bool>()[static_cast<size_t>(i * keys() + j)] =
            j <= i + diagonal() && (window() == 0 || i + diagonal() - j < window());
    return step_.constant(mask.view());
  }

  /// (N, 1, ..., S): keys before the length.
  std::string mask_of_lengths() {
    const Value& lengths = step_.in(*at_.lengths);
    if (lengths.batch_axis < 0 && step_.in(0).batch_axis >= 0) step_.fix_batch();
    std::vector<int64_t> column(static_cast<size_t>(rank_), 1);
    column[0] = lengths.shape[0];
    const std::string ends = step_.reshape(step_.cast(lengths.name, lengths.dtype, DType::kInt64),
                                           Shape(std::move(column)), lengths.batch_axis);
    std::vector<int64_t> places(static_cast<size_t>(keys()));
    std::iota(places.begin(), places.end(), 0);
    return step_.node("Less", {step_.vector(places), ends});
  }

  StepExport& step_;
  ops::AttentionOperands at_;
  int rank_;
  int64_t group_;  // heads that share a key
};

void attention(StepExport& step) { AttentionExport(step).write(); }

/// Cosines and sines of the angles by which pairs turn.
struct Turns {
  std::string cos, sin;
};

/// Constants of positions 0, 1, ...
Turns turns_of_places(StepExport& step, const std::vector<double>& frequencies) {
  const Value& x = step.in(0);
  const int64_t length = x.shape[x.shape.rank() - 2];
  if (x.batch_axis == x.shape.rank() - 2) step.fix_batch();
  Array cos(x.dtype, Shape{length, std::ssize(frequencies)}), sin = cos;
  visit_float(x.dtype, [&]<typename T>(T) {
    for (size_t at = 0; at < cos.as<T>().size(); ++at) {
      const double angle =
          static_cast<double>(at / frequencies.size()) * frequencies[at % frequencies.size()];
      cos.as<T>()[at] = static_cast<T>(std::cos(angle));
      sin.as<T>()[at] = static_cast<T>(std::sin(angle));
    }
  });
  return {step.constant(cos.view()), step.constant(sin.view())};
}

/// Of the operand, (T) or (N, T), with an axis of 1 for each that x has besides. Angles are
/// float64.
Turns turns_of_positions(StepExport& step, const std::vector<double>& frequencies) {
  const Value &x = step.in(0), &positions = step.in(1);
  std::vector<int64_t> column(static_cast<size_t>(x.shape.rank()), 1);
  column[column.size() - 2] = x.shape[x.shape.rank() - 2];
  const bool each = positions.shape.rank() == 2;
  if (each) column[0] = x.shape[0];
  int batch_axis = positions.batch_axis;
  if (batch_axis == positions.shape.rank() - 1) batch_axis = x.shape.rank() - 2;
  if (positions.batch_axis < 0 && x.batch_axis == x.shape.rank() - 2) step.fix_batch();
  if (each && positions.batch_axis < 0 && x.batch_axis == 0) step.fix_batch();
  const std::string places =
      step.reshape(step.cast(positions.name, positions.dtype, DType::kFloat64),
                   Shape(std::move(column)), batch_axis);
  const std::string angles = step.node("Mul", {places, step.numbers(frequencies, DType::kFloat64)});
  // Without whole turns, since runtimes know cosines of float32 alone.
  const std::string turn = step.number(2 * std::numbers::pi, DType::kFloat64);
  const std::string turns = step.node("Floor", {step.node("Div", {angles, turn})});
  const std::string rest = step.cast(step.node("Sub", {angles, step.node("Mul", {turns, turn})}),
                                     DType::kFloat64, x.dtype);
  return {step.node("Cos", {rest}), step.node("Sin", {rest})};
}

/// Elements of the last axis.
std::string features(StepExport& step, int64_t first, int64_t end, int64_t by = 1) {
  return step.node("Slice", {step.in(0).name, step.vector({first}), step.vector({end}),
                             step.vector({-1}), step.vector({by})});
}

void rope(StepExport& step) {
  const Value& x = step.in(0);
  const ops::Attributes& attributes = step.attributes();
  const int64_t dims = attributes.get<int64_t>("dims"), depth = x.shape[x.shape.rank() - 1];
  const std::vector<double> frequencies = ops::rope_frequencies(attributes);
  const auto [cos, sin] = step.operands() > 1 ? turns_of_positions(step, frequencies)
                                              : turns_of_places(step, frequencies);
  const bool halves = ops::rope_splits_halves(attributes);
  const std::string one = halves ? features(step, 0, dims / 2) : features(step, 0, dims, 2);
  const std::string other = halves ? features(step, dims / 2, dims) : features(step, 1, dims, 2);
  const auto multiply = [&](const std::string& a, const std::string& b) {
    return step.node("Mul", {a, b});
  };
  std::string first = step.node("Sub", {multiply(one, cos), multiply(other, sin)});
  std::string second = step.node("Add", {multiply(other, cos), multiply(one, sin)});
  const NodeAttributes last = {{"axis", int64_t{-1}}};
  Strings parts = {first, second};
  if (!halves) {
    for (std::string& part : parts) part = step.node("Unsqueeze", {part, step.vector({-1})});
    Shape shape = x.shape;
    shape[shape.rank() - 1] = dims;
    parts = {step.reshape(step.node("Concat", parts, last), shape, x.batch_axis)};
  }
  if (dims < depth) parts.push_back(features(step, dims, depth));
  step.result("Concat", parts, last);
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
    {"rope", rope},
};

}  // namespace

std::span<const ExportRule> layer_rules() { return kLayers; }

}  // namespace flow::onnx
