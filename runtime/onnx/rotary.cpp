// Rotary embeddings of queries and keys.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "ops/rope/frequencies.h"
#include "runtime/base/element_types.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// The cosines and sines of the angles by which pairs are rotated.
struct Turns {
  std::string cos, sin;
};

/// Returns constants for the positions 0, 1, ...
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

/// Computes the rotations for an operand with positions, (T) or (N, T), which gets an axis of 1 for
/// each further axis of x. The angles are float64.
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
  // Whole turns are subtracted, because runtimes only support cosines of float32.
  const std::string turn = step.number(2 * std::numbers::pi, DType::kFloat64);
  const std::string turns = step.node("Floor", {step.node("Div", {angles, turn})});
  const std::string rest = step.cast(step.node("Sub", {angles, step.node("Mul", {turns, turn})}),
                                     DType::kFloat64, x.dtype);
  return {step.node("Cos", {rest}), step.node("Sin", {rest})};
}

/// Takes a range of elements of the last axis.
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
  const NodeAttributes last = {{"axis", -1}};
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

/// Takes a range of elements of the last of four axes.
Tensor last_slice(NodeImport& node, const Tensor& x, int64_t from, int64_t to, int64_t step) {
  return node.call("slice", {x}, {{"index", fmt::format("[:, :, :, {}:{}:{}]", from, to, step)}});
}

/// Rotates pairs of elements by angles whose cosines and sines are operands.
Tensors rotary_embedding(NodeImport& node) {
  node.pin_shapes();
  const Tensor x = as_heads(node, node.operand(0), node.integer("num_heads", 0));
  const int64_t depth = x.shape[3], given = node.integer("rotary_embedding_dim", 0);
  const int64_t turned = given == 0 ? depth : given;
  if (turned < 2 || turned > depth || turned % 2 != 0)
    refuse("a rotary_embedding_dim of {} in {}", turned, depth);
  const bool interleaved = node.integer("interleaved", 0) != 0;
  const auto angles = [&](int i) {
    Tensor table = node.operand(i);
    if (node.has(3))
      table = node.call("gather", {table, node.indices(3, table.size(0))}, {{"axis", 0}});
    if (table.shape.rank() != 3) refuse("angles {}", table.shape.str());
    return node.reshape(table, {table.shape[0], 1, table.shape[1], table.shape[2]});
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const int64_t step = interleaved ? 2 : 1, second = interleaved ? 1 : turned / 2;
  const Tensor a = last_slice(node, x, 0, interleaved ? turned : turned / 2, step);
  const Tensor b = last_slice(node, x, second, turned, step);
  const auto product = [&](const Tensor& p, const Tensor& q) {
    return node.call("multiply", {p, q});
  };
  Tensor first = node.call("subtract", {product(cosine, a), product(sine, b)});
  Tensor other = node.call("add", {product(sine, a), product(cosine, b)});
  Integers pair = first.shape.extents(), whole = x.shape.extents();
  if (interleaved) {
    pair.push_back(1);
    first = node.reshape(first, pair);
    other = node.reshape(other, pair);
  }
  Tensor result = node.call("concat", {first, other}, {{"axis", -1}});
  whole[3] = turned;
  if (interleaved) result = node.reshape(result, whole);
  if (turned < depth)
    result = node.call("concat", {result, last_slice(node, x, turned, depth, 1)}, {{"axis", -1}});
  return {node.rank() == 3 ? as_rows(node, result) : result};
}

constexpr Rule kRotaryRules[] = {
    {"rope", "RotaryEmbedding", rope, rotary_embedding},
};

}  // namespace

std::span<const Rule> rotary_rules() { return kRotaryRules; }

}  // namespace flow::onnx
