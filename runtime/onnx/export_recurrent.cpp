// Nodes of recurrent layers: time first, and gates in another order. ONNX has the steps of a layer
// and the product of its input in one operator.
#include <algorithm>

#include "ops/core/spec.h"
#include "runtime/onnx/step_export.h"

namespace flow::onnx {
namespace {

using plan::TensorId;

/// The step that makes it, or null.
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

/// x weight^T, with a bias where it has one.
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

using Integers = std::vector<int64_t>;
using Strings = std::vector<std::string>;

/// Operands of all kinds, as recurrent_operands has them. States follow, then lengths.
enum : size_t { kInput, kInputWeight, kInputBias, kWeight, kBias, kState };

/// A step of a layer, and what tells layers apart.
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

/// Which gate of ours is the i-th of ONNX.
Integers order_of(const LayerStep& layer) {
  if (layer.has_cell) return {0, 3, 1, 2};
  return layer.resets ? Integers{1, 0, 2} : Integers{0};
}

/// The rows of a weight or bias, gate by gate in ONNX's order.
std::string ordered(StepExport& step, const LayerStep& layer, const std::string& name) {
  if (layer.gates == 1) return name;
  Strings parts;
  for (const int64_t gate : order_of(layer))
    parts.push_back(
        step.node("Slice", {name, step.vector({gate * layer.units}),
                            step.vector({(gate + 1) * layer.units}), step.vector({0})}));
  return step.node("Concat", parts, {{"axis", int64_t{0}}});
}

/// With a first axis of 1, the only direction.
std::string one_direction(StepExport& step, const std::string& name) {
  return name.empty() ? name : step.node("Unsqueeze", {name, step.vector({0})});
}

std::string weight(StepExport& step, const LayerStep& layer, size_t operand) {
  return one_direction(step, ordered(step, layer, step.in(operand).name));
}

/// Those of the input, then those of the state; zeros where there are none.
std::string biases(StepExport& step, const LayerStep& layer) {
  const std::string &of_input = step.in(kInputBias).name, &own = step.in(kBias).name;
  if (own.empty() && of_input.empty()) return "";
  const auto part = [&](const std::string& name) {
    if (!name.empty()) return ordered(step, layer, name);
    return step.constant(Array(step.in(kWeight).dtype, Shape{layer.gates * layer.units}).view());
  };
  const Strings parts = {part(of_input), part(own)};
  return one_direction(step, step.node("Concat", parts, {{"axis", int64_t{0}}}));
}

/// (N T, F) as (T, N, F).
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
    attributes.push_back(
        {"linear_before_reset", int64_t{step.attribute<bool>("linear_before_reset")}});
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

constexpr ExportRule kRecurrent[] = {
    {.op = "lstm_steps", .write = recurrent, .type = "LSTM", .takes_product = true},
    {.op = "gru_steps", .write = recurrent, .type = "GRU", .takes_product = true},
    {.op = "rnn_steps", .write = recurrent, .type = "RNN", .takes_product = true},
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
  // The sum of both biases is added to the product.
  const plan::Step* sum = maker_of(job, product->bias);
  const bool both = does(sum, "add") && sum->epilogue.empty();
  if (both) operands[2] = sum->inputs[0];
  operands.insert(operands.begin() + 4, both ? sum->inputs[1] : TensorId());
  return operands;
}

std::span<const ExportRule> recurrent_rules() { return kRecurrent; }

}  // namespace flow::onnx
