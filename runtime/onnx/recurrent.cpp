// Recurrent layers, whose time axis is first in ONNX and whose gates have another order. A single
// operator of ONNX contains the steps of a layer and the product of its input.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/core/spec.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {

using plan::TensorId;

namespace {

/// Returns the step that makes the tensor, or null.
const plan::Step* maker_of(const plan::Job& job, TensorId id) {
  if (!id.valid()) return nullptr;
  const auto found = std::ranges::find_if(
      job.steps, [&](const plan::Step& step) { return std::ranges::count(step.outputs, id) > 0; });
  return found == job.steps.end() ? nullptr : &*found;
}

bool does(const plan::Step* step, std::string_view op) {
  return step && step->op.spec() == ops::find_spec(op);
}

bool adds_bias(const ops::OpRef& op) { return op->epilogue == ops::Epilogue::kBias; }

/// The product x weight^T, to which a bias may be added.
struct Product {
  TensorId x, weight, bias;
};

std::optional<Product> product_of(const plan::Job& job, TensorId result) {
  Product product;
  const plan::Step* step = maker_of(job, result);
  if (step && step->epilogue.empty() && adds_bias(step->op)) {
    product.bias = step->inputs[1];
    step = maker_of(job, step->inputs[0]);
  } else if (step && step->epilogue.size() == 1 && adds_bias(step->epilogue[0].op)) {
    product.bias = step->epilogue[0].operands[0];
  } else if (step && !step->epilogue.empty()) {
    return {};
  }
  if (!does(step, "matmul") || step->inputs.size() != 2 ||
      step->attributes.get<bool>("transpose_a") || !step->attributes.get<bool>("transpose_b"))
    return {};
  product.x = step->inputs[0];
  product.weight = step->inputs[1];
  return product;
}

bool is_zeros(const plan::Job& job, TensorId id) {
  const plan::Step* maker = maker_of(job, id);
  return is_float(job[id].dtype) && does(maker, "fill") &&
         maker->attributes.get<double>("value") == 0;
}

/// The order of operands for all kinds of layers, as in recurrent_operands(). One or two states
/// come last, then the lengths.
enum : size_t { kInput, kInputWeight, kInputBias, kWeight, kBias, kState };

/// The properties of a layer's step that distinguish the kinds of layers.
struct LayerStep {
  explicit LayerStep(const StepExport& step)
      : has_cell(step.type() == "LSTM"),
        resets(step.type() == "GRU"),
        lengths(has_cell ? kState + 2 : kState + 1),
        units(step.in(kWeight).shape[1]),
        gates(step.in(kWeight).shape[0] / units) {}

  bool has_cell, resets;
  size_t lengths;
  int64_t units, gates;
};

/// Returns for each gate of ONNX its index in the order of flow.
Integers order_of(const LayerStep& layer) {
  if (layer.has_cell) return {0, 3, 1, 2};
  return layer.resets ? Integers{1, 0, 2} : Integers{0};
}

/// Reorders the rows of a weight or bias to ONNX's order of gates.
std::string ordered(StepExport& step, const LayerStep& layer, const std::string& name) {
  if (layer.gates == 1) return name;
  Strings parts;
  for (const int64_t gate : order_of(layer))
    parts.push_back(
        step.node("Slice", {name, step.vector({gate * layer.units}),
                            step.vector({(gate + 1) * layer.units}), step.vector({0})}));
  return step.node("Concat", parts, {{"axis", 0}});
}

/// Adds a first axis of 1 for the only direction.
std::string one_direction(StepExport& step, const std::string& name) {
  return name.empty() ? name : step.node("Unsqueeze", {name, step.vector({0})});
}

std::string weight(StepExport& step, const LayerStep& layer, size_t operand) {
  return one_direction(step, ordered(step, layer, step.in(operand).name));
}

/// Returns the biases of the input, then those of the state. A missing bias is zeros if the other
/// one exists.
std::string biases(StepExport& step, const LayerStep& layer) {
  const std::string &of_input = step.in(kInputBias).name, &own = step.in(kBias).name;
  if (own.empty() && of_input.empty()) return "";
  const auto part = [&](const std::string& name) {
    if (!name.empty()) return ordered(step, layer, name);
    return step.constant(Array(step.in(kWeight).dtype, Shape{layer.gates * layer.units}).view());
  };
  const Strings parts = {part(of_input), part(own)};
  return one_direction(step, step.node("Concat", parts, {{"axis", 0}}));
}

/// Reshapes (N T, F) to (T, N, F).
std::string sequence(StepExport& step) {
  const Shape& x = step.in(kInput).shape;
  const std::string rows =
      step.reshape(step.in(kInput).name, {step.out().shape[0], step.out().shape[1], x[1]}, 0);
  return step.node("Transpose", {rows}, {{"perm", Integers{1, 0, 2}}});
}

std::string lengths(StepExport& step, const LayerStep& layer) {
  if (step.operands() <= layer.lengths) return "";
  const Value& given = step.in(layer.lengths);
  return step.cast(given.name, given.dtype, DType::kInt32);
}

NodeAttributes attributes_of(const StepExport& step, const LayerStep& layer) {
  const bool reverse = step.attribute<bool>("reverse");
  NodeAttributes attributes = {{"hidden_size", layer.units},
                               {"direction", std::string_view(reverse ? "reverse" : "forward")}};
  if (layer.resets)
    attributes.push_back({"linear_before_reset", step.attribute<bool>("linear_before_reset")});
  else if (!layer.has_cell)
    attributes.push_back(
        {"activations",
         Strings{step.attribute<std::string>("activation") == "relu" ? "Relu" : "Tanh"}});
  return attributes;
}

void recurrent(StepExport& step) {
  const LayerStep layer(step);
  Strings inputs = {sequence(step), weight(step, layer, kInputWeight), weight(step, layer, kWeight),
                    biases(step, layer), lengths(step, layer)};
  inputs.push_back(one_direction(step, step.in(kState).name));
  if (layer.has_cell) inputs.push_back(one_direction(step, step.in(kState + 1).name));
  while (inputs.back().empty()) inputs.pop_back();
  const Strings outputs =
      step.nodes(step.type(), inputs, layer.has_cell ? 3 : 2, attributes_of(step, layer));
  if (step.is_read(0)) {
    const std::string forward = step.node("Squeeze", {outputs[0], step.vector({1})});
    step.result("Transpose", {forward}, {{"perm", Integers{1, 0, 2}}});
  }
  for (size_t i = 1; i < outputs.size(); ++i)
    if (step.is_read(i)) step.result("Squeeze", {outputs[i], step.vector({0})}, {}, i);
}

/// A kind of layer: for each gate of the op its index in ONNX, and the functions that the op always
/// has.
struct Kind {
  std::string_view type;  // operator of ONNX
  std::string_view op;
  std::vector<int64_t> gates;
  std::vector<std::string> functions;
};

Kind kind_of(std::string_view type) {
  if (type == "LSTM") return {type, "lstm", {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}};
  if (type == "GRU") return {type, "gru", {1, 0, 2}, {"Sigmoid", "Tanh"}};
  return {type, "rnn", {0}, {"Tanh"}};
}

/// The layer that a node computes.
struct Layer {
  Kind kind;
  std::string direction;
  int64_t directions, units, features;
  Size steps, rows;
  bool time_first;
  bool uses_bias;
  std::string function;  // activation of an RNN

  int64_t all_gates() const { return std::ssize(kind.gates) * units; }
  int64_t all_units() const { return directions * units; }
};

/// Returns the activation of an RNN. Other kinds only support their default activations.
std::string function_of(NodeImport& node, const Kind& kind, int64_t directions) {
  const auto* found = node.find("activations", pb::AttributeProto::STRINGS);
  if (!found) return "tanh";
  std::vector<std::string> given(found->strings().begin(), found->strings().end());
  const auto count = kind.functions.size() * static_cast<size_t>(directions);
  const bool rectifies = kind.type == "RNN" && !given.empty() && given[0] == "Relu";
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] != (rectifies ? "Relu" : kind.functions[i % kind.functions.size()]))
      refuse("other activations");
  // Exporters may write two functions for a layer with one direction.
  const bool is_default = kind.type == "RNN" && given.size() == 2;
  if (given.size() != count && !is_default) refuse("another number of activations");
  return rectifies ? "relu" : "tanh";
}

void require_shape(const NodeImport& node, int i, const Shape& shape) {
  if (node.has(i) && node.in(i).shape != shape)
    refuse("operand {} is {}; expected {}", i + 1, node.in(i).shape.str(), shape.str());
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
    refuse("an unknown direction");
  layer.function = function_of(node, layer.kind, layer.directions);
  if (node.has(7)) refuse("peepholes");
  if (node.integer("input_forget", 0) != 0) refuse("input_forget");
  const Shape &x = node.in(0).shape, &weight = node.in(2).shape;
  if (x.rank() != 3 || weight.rank() != 3) refuse("operands {} and {}", x.str(), weight.str());
  layer.units = weight[2];
  if (node.integer("hidden_size", layer.units) != layer.units)
    refuse("a hidden_size that is not that of the weights");
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

/// Returns the gates whose rows of `columns` elements start at row `begin` of an array, in the op's
/// order.
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

/// Converts a state of ONNX, (directions, N, units) or with the rows first, to (N, directions
/// units).
Tensor state(NodeImport& node, const Layer& layer, int i) {
  if (!node.has(i)) return {};
  const Tensor given = node.operand(i);
  return node.reshape(layer.time_first ? transposed(node, given, {1, 0, 2}) : given,
                      {layer.rows, fixed(layer.all_units())});
}

/// Converts a state of the op back to the layout of ONNX.
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

/// A missing operand has no reference. Missing operands at the end are omitted.
Tensors operands_of(NodeImport& node, const Layer& layer) {
  const Tensor x = node.operand(0);
  Tensors operands = {layer.time_first ? transposed(node, x, {1, 0, 2}) : x,
                      node.has(4) ? node.operand(4) : Tensor(), state(node, layer, 5)};
  if (layer.kind.type == "LSTM") operands.push_back(state(node, layer, 6));
  while (operands.back().reference.kind == Reference::Kind::kNone) operands.pop_back();
  return operands;
}

/// Converts (N, T, directions units) to (T, directions, N, units), or to the layout with the rows
/// first.
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

constexpr Rule kRecurrentRules[] = {
    {.op = "lstm_steps",
     .type = "LSTM",
     .write = recurrent,
     .read = recurrent,
     .takes_product = true},
    {.op = "gru_steps",
     .type = "GRU",
     .write = recurrent,
     .read = recurrent,
     .takes_product = true},
    {.op = "rnn_steps",
     .type = "RNN",
     .write = recurrent,
     .read = recurrent,
     .takes_product = true},
};

}  // namespace

std::optional<std::vector<TensorId>> recurrent_operands(const plan::Job& job,
                                                        const plan::Step& step) {
  const plan::Step* gates = maker_of(job, step.inputs[0]);
  if (!does(gates, "reshape")) return {};
  const auto product = product_of(job, gates->inputs[0]);
  if (!product) return {};
  std::vector<TensorId> operands = {product->x, product->weight, product->bias};
  for (size_t i = 1; i < step.inputs.size(); ++i)
    operands.push_back(is_zeros(job, step.inputs[i]) ? TensorId() : step.inputs[i]);
  if (does(&step, "gru_steps")) return operands;
  // The bias of the product may be the sum of both biases. ONNX takes them separately.
  const plan::Step* sum = maker_of(job, product->bias);
  const bool both = does(sum, "add") && sum->epilogue.empty();
  if (both) operands[2] = sum->inputs[0];
  operands.insert(operands.begin() + 4, both ? sum->inputs[1] : TensorId());
  return operands;
}

std::span<const Rule> recurrent_rules() { return kRecurrentRules; }

}  // namespace flow::onnx
