// Recurrent layers: gates in another order, and time first.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// A kind of layer: where ONNX has each gate of the op, and the functions that it always has.
struct Kind {
  std::string_view type;  // of ONNX
  std::string_view op;
  std::vector<int64_t> gates;
  std::vector<std::string> functions;
};

Kind kind_of(std::string_view type) {
  if (type == "LSTM") return {type, "lstm", {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}};
  if (type == "GRU") return {type, "gru", {1, 0, 2}, {"Sigmoid", "Tanh"}};
  return {type, "rnn", {0}, {"Tanh"}};
}

/// What a node computes.
struct Layer {
  Kind kind;
  std::string direction;
  int64_t directions, units, features;
  Size steps, rows;
  bool time_first;
  bool uses_bias;
  std::string function;  // of an RNN

  int64_t all_gates() const { return std::ssize(kind.gates) * units; }
  int64_t all_units() const { return directions * units; }
};

/// The function of an RNN; others have no choice.
std::string function_of(NodeImport& node, const Kind& kind, int64_t directions) {
  const auto* found = node.find("activations", pb::AttributeProto::STRINGS);
  if (!found) return "tanh";
  std::vector<std::string> given(found->strings().begin(), found->strings().end());
  const auto count = kind.functions.size() * static_cast<size_t>(directions);
  const bool rectifies = kind.type == "RNN" && !given.empty() && given[0] == "Relu";
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] != (rectifies ? "Relu" : kind.functions[i % kind.functions.size()]))
      throw Unsupported("other activations");
  const bool is_default = kind.type == "RNN" && given.size() == 2;  // also of one direction
  if (given.size() != count && !is_default) throw Unsupported("another number of activations");
  return rectifies ? "relu" : "tanh";
}

void require_shape(const NodeImport& node, int i, const Shape& shape) {
  if (node.has(i) && node.in(i).shape != shape)
    throw Unsupported(
        fmt::format("operand {} is {}; expected {}", i + 1, node.in(i).shape.str(), shape.str()));
}

Layer layer_of(NodeImport& node) {
  Layer layer = {.kind = kind_of(node.type()),
                 .direction = node.text("direction", "forward"),
                 .directions = 1,
                 .units = 0,
                 .features = 0,
                 .steps = {},
                 .rows = {},
                 .time_first = node.integer("layout", 0) == 0,
                 .uses_bias = node.has(3),
                 .function = ""};
  if (layer.direction == "bidirectional")
    layer.directions = 2;
  else if (layer.direction != "forward" && layer.direction != "reverse")
    throw Unsupported("an unknown direction");
  layer.function = function_of(node, layer.kind, layer.directions);
  if (node.has(7)) throw Unsupported("peepholes");
  if (node.integer("input_forget", 0) != 0) throw Unsupported("input_forget");
  const Shape &x = node.in(0).shape, &weight = node.in(2).shape;
  if (x.rank() != 3 || weight.rank() != 3)
    throw Unsupported(fmt::format("operands {} and {}", x.str(), weight.str()));
  layer.units = weight[2];
  if (node.integer("hidden_size", layer.units) != layer.units)
    throw Unsupported("a hidden_size that is not that of the weights");
  layer.steps = node.in(0).size(layer.time_first ? 0 : 1);
  layer.rows = node.in(0).size(layer.time_first ? 1 : 0);
  layer.features = x[2];
  const int64_t rows = layer.rows.value;
  const Shape states = layer.time_first ? Shape{layer.directions, rows, layer.units}
                                        : Shape{rows, layer.directions, layer.units};
  require_shape(node, 1, {layer.directions, layer.all_gates(), layer.features});
  require_shape(node, 2, {layer.directions, layer.all_gates(), layer.units});
  require_shape(node, 3, {layer.directions, 2 * layer.all_gates()});
  require_shape(node, 4, {rows});
  for (const int i : {5, 6}) require_shape(node, i, states);
  return layer;
}

/// The gates that start `begin` rows of `columns` elements into an array, in the op's order.
Array gates_of(const Layer& layer, const Array& all, int64_t begin, int64_t columns, Shape shape) {
  Array ordered(all.dtype(), std::move(shape));
  const auto bytes_of_gate = static_cast<size_t>(layer.units * columns) * size_of(all.dtype());
  const auto start = static_cast<size_t>(begin * columns) * size_of(all.dtype());
  for (size_t i = 0; i < layer.kind.gates.size(); ++i)
    std::memcpy(
        ordered.bytes().data() + i * bytes_of_gate,
        all.bytes().data() + start + static_cast<size_t>(layer.kind.gates[i]) * bytes_of_gate,
        bytes_of_gate);
  return ordered;
}

std::map<std::string, Array> weights_of(NodeImport& node, const Layer& layer) {
  std::map<std::string, Array> weights;
  const int64_t gates = layer.all_gates();
  for (int64_t i = 0; i < layer.directions; ++i) {
    const std::string end = i == 1 ? "_l0_reverse" : "_l0";
    weights.emplace("weight_ih" + end, gates_of(layer, node.value(1), i * gates, layer.features,
                                                {gates, layer.features}));
    weights.emplace("weight_hh" + end,
                    gates_of(layer, node.value(2), i * gates, layer.units, {gates, layer.units}));
    if (!layer.uses_bias) continue;
    weights.emplace("bias_ih" + end, gates_of(layer, node.value(3), 2 * i * gates, 1, {gates}));
    weights.emplace("bias_hh" + end,
                    gates_of(layer, node.value(3), (2 * i + 1) * gates, 1, {gates}));
  }
  return weights;
}

Tensor transposed(NodeImport& node, const Tensor& x, const Integers& perm) {
  return node.call("transpose", {x}, {{"perm", perm}});
}

/// A state of ONNX, (directions, N, units), or with the rows first, as (N, directions units).
Tensor state(NodeImport& node, const Layer& layer, int i) {
  if (!node.has(i)) return {};
  const Tensor given = node.operand(i);
  return node.reshape(layer.time_first ? transposed(node, given, {1, 0, 2}) : given,
                      {layer.rows, fixed(layer.all_units())});
}

/// The reverse of that.
Tensor given_state(NodeImport& node, const Layer& layer, const Tensor& x) {
  const Tensor split = node.reshape(x, {layer.rows, fixed(layer.directions), fixed(layer.units)});
  return layer.time_first ? transposed(node, split, {1, 0, 2}) : split;
}

ops::Attributes attributes_of(NodeImport& node, const Layer& layer) {
  ops::Attributes attributes = {
      {"units", layer.units}, {"direction", layer.direction}, {"use_bias", layer.uses_bias}};
  if (layer.kind.type == "GRU")
    attributes.set("linear_before_reset", node.integer("linear_before_reset", 0) != 0);
  if (layer.kind.type == "RNN") attributes.set("activation", layer.function);
  return attributes;
}

/// An operand that is not there has no reference; the last ones are left out.
Tensors operands_of(NodeImport& node, const Layer& layer) {
  const Tensor x = node.operand(0);
  Tensors operands = {layer.time_first ? transposed(node, x, {1, 0, 2}) : x,
                      node.has(4) ? node.operand(4) : Tensor(), state(node, layer, 5)};
  if (layer.kind.type == "LSTM") operands.push_back(state(node, layer, 6));
  while (operands.back().reference.kind == Reference::Kind::kNone) operands.pop_back();
  return operands;
}

/// (N, T, directions units) as (T, directions, N, units), or with the rows first.
Tensor given_sequence(NodeImport& node, const Layer& layer, const Tensor& x) {
  const Tensor split =
      node.reshape(x, {layer.rows, layer.steps, fixed(layer.directions), fixed(layer.units)});
  return layer.time_first ? transposed(node, split, {1, 2, 0, 3}) : split;
}

Tensors recurrent(NodeImport& node) {
  const Layer layer = layer_of(node);
  const ops::Attributes attributes = attributes_of(node, layer);
  const Tensors operands = operands_of(node, layer);
  const int batch_axis = operands[0].batch_axis == 0               ? 0
                         : operands[0].batch_axis == ops::kNoBatch ? ops::kNoBatch
                                                                   : ops::kBatchReduced;
  Tensor sequence = node.layer(layer.kind.op, operands, attributes,
                               {layer.rows.value, layer.steps.value, layer.all_units()}, batch_axis,
                               weights_of(node, layer), {1, 2, 3});
  sequence.sizes = {layer.rows, layer.steps, fixed(layer.all_units())};
  Tensor last = sequence;
  last.shape = {layer.rows.value, layer.all_units()};
  last.sizes = {layer.rows, fixed(layer.all_units())};
  Tensors results(3);
  if (node.is_read(0)) results[0] = given_sequence(node, layer, sequence);
  for (int i = 1; i < (layer.kind.type == "LSTM" ? 3 : 2); ++i) {
    if (!node.is_read(i)) continue;
    last.reference.text = i == 1 ? "h" : "c";
    results[static_cast<size_t>(i)] = given_state(node, layer, last);
  }
  return results;
}

constexpr ImportRule kRecurrentImports[] = {
    {"LSTM", recurrent, "lstm"},
    {"GRU", recurrent, "gru"},
    {"RNN", recurrent, "rnn"},
};

}  // namespace

std::span<const ImportRule> recurrent_imports() { return kRecurrentImports; }

}  // namespace flow::onnx
