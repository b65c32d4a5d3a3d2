// The records of recurrent layers, and of the steps of one layer in one direction, which kernels
// compute. Steps cover all rows and start from products of the input, which are computed for all
// steps together.
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// The sizes of the operands of steps: `gates` (N, T, G H), the recurrent weight (G H, H), and
/// states (N, H).
struct StepsOf {
  int64_t rows, steps, units, gates;  // `gates` counts the gates of all units
  int batch_axis;

  Shape step() const { return {rows, units}; }
  Shape steps_of(int64_t extent) const { return {rows, steps, extent}; }
};

/// Returns the sizes of a call, or nothing after it has reported an error. Operand `weight` must
/// have the shape of a recurrent weight with `gates` gates, and operand `out` must have the rows
/// and steps.
std::optional<StepsOf> steps_of(Call& call, int64_t gates, size_t out, size_t weight) {
  const Shape &of_steps = call.shape(out), &of_weight = call.shape(weight);
  if (of_steps.rank() != 3) {
    call.bad_operand(out, Reason::kRankMismatch,
                     fmt::format("{} is not (batch, time, units)", of_steps.str()));
    return {};
  }
  if (of_weight.rank() != 2 || of_weight[0] / gates != of_weight[1] || of_weight[0] % gates != 0) {
    call.bad_operand(weight, Reason::kShapeMismatch,
                     fmt::format("{} is not ({} units, units)", of_weight.str(), gates));
    return {};
  }
  int batch_axis = batch_before(call.operand(weight).batch_axis, 0);
  for (size_t i = 0; i < call.operands(); ++i)
    if (i != weight)
      batch_axis = common_batch(batch_axis, batch_before(call.operand(i).batch_axis, 1));
  return StepsOf{of_steps[0], of_steps[1], of_weight[1], of_weight[0], batch_axis};
}

/// Returns true if the operands other than the weight have these shapes in turn, and if the
/// optional operand `lengths` after them has an element for each row; otherwise reports the first
/// operand that does not fit.
bool operands_fit(Call& call, const StepsOf& of, size_t weight, std::vector<Shape> shapes) {
  shapes.insert(shapes.begin() + static_cast<std::ptrdiff_t>(weight), call.shape(weight));
  if (call.operands() > shapes.size()) shapes.push_back({of.rows});
  for (size_t i = 0; i < shapes.size(); ++i)
    if (!call.have_shape(i, i + 1, shapes[i])) return false;
  return true;
}

void add_results(Call& call, const StepsOf& of, std::initializer_list<Shape> shapes) {
  for (const Shape& shape : shapes) call.result(call.dtype(0), shape, of.batch_axis);
}

int64_t saved_gates_of_gru(const Call& call) {
  return call.attribute<bool>("linear_before_reset") ? 4 : 3;
}

/// The operands are gates, weight, h0, c0 and lengths.
void infer_lstm_steps(Call& call) {
  const auto of = steps_of(call, 4, 0, 1);
  if (!of) return;
  const Shape step = of->step(), steps = of->steps_of(of->units), gates = of->steps_of(of->gates);
  if (operands_fit(call, *of, 1, {gates, step, step}))
    add_results(call, *of, {steps, step, step, gates, steps});
}

/// The operands are gates, weight, bias, h0 and lengths.
void infer_gru_steps(Call& call) {
  const auto of = steps_of(call, 3, 0, 1);
  if (!of) return;
  const Shape step = of->step();
  if (operands_fit(call, *of, 1, {of->steps_of(of->gates), {of->gates}, step}))
    add_results(
        call, *of,
        {of->steps_of(of->units), step, of->steps_of(saved_gates_of_gru(call) * of->units)});
}

/// The operands are gates, weight, h0 and lengths.
void infer_rnn_steps(Call& call) {
  const auto of = steps_of(call, 1, 0, 1);
  if (of && operands_fit(call, *of, 1, {of->steps_of(of->gates), of->step()}))
    add_results(call, *of, {of->steps_of(of->units), of->step()});
}

/// The operands are dy, dh, dc, weight, h0, c0, out, gates, cells and lengths.
void infer_lstm_steps_grad(Call& call) {
  const auto of = steps_of(call, 4, 0, 3);
  if (!of) return;
  const Shape step = of->step(), steps = of->steps_of(of->units), gates = of->steps_of(of->gates);
  if (operands_fit(call, *of, 3, {steps, step, step, step, step, steps, gates, steps}))
    add_results(call, *of, {gates, steps, step, step});
}

/// The operands are dy, dh, weight, h0, out, gates and lengths.
void infer_gru_steps_grad(Call& call) {
  const auto of = steps_of(call, 3, 0, 2);
  if (!of) return;
  const Shape step = of->step(), steps = of->steps_of(of->units), gates = of->steps_of(of->gates);
  const Shape saved = of->steps_of(saved_gates_of_gru(call) * of->units);
  if (operands_fit(call, *of, 2, {steps, step, step, steps, saved}))
    add_results(call, *of,
                {gates, steps, step, call.attribute<bool>("linear_before_reset") ? gates : steps});
}

/// The operands are dy, dh, weight, h0, out and lengths.
void infer_rnn_steps_grad(Call& call) {
  const auto of = steps_of(call, 1, 0, 2);
  if (!of) return;
  const Shape step = of->step(), steps = of->steps_of(of->units);
  if (operands_fit(call, *of, 2, {steps, step, step, steps}))
    add_results(call, *of, {steps, steps, step});
}

/// Returns the limit of lengths, which are in [0, T].
int64_t limit_of_lengths(std::span<const Shape> operands, const Attributes&) {
  return operands[0][1] + 1;
}

OperandSpec lengths_operand() {
  return optional_integers(
      "lengths", "(N), integers in [0, T]: the steps of each row; results past them are 0",
      limit_of_lengths);
}

/// Returns the operations of the product of states and recurrent weight in all steps.
double steps_flops(std::span<const Shape> operands, const Shape& result, const Attributes&) {
  return 2 * static_cast<double>(result.elements()) *
         static_cast<double>(operands[1].elements() / operands[1][1]);
}

/// Returns the operations of the gradient. `result` is the gradient of the gates.
double steps_grad_flops(std::span<const Shape> operands, const Shape& result, const Attributes&) {
  return 2 * static_cast<double>(result.elements()) *
         static_cast<double>(operands[0][operands[0].rank() - 1]);
}

AttributeSpec reverse_attribute() {
  return {"reverse", AttributeType::kBool, "false",
          "go from the last step of each row to the first"};
}

AttributeSpec linear_before_reset_attribute() {
  return {"linear_before_reset", AttributeType::kBool, "true",
          "apply the reset gate after the recurrent product, as PyTorch and cuDNN do; else before "
          "it, as in the paper"};
}

AttributeSpec activation_attribute() {
  return choice_attribute("activation", "tanh", "the function of each step", {"tanh", "relu"});
}

std::vector<OperandSpec> layer_operands() {
  return {
      {"in", "(N, T, features)"},
      lengths_operand(),
      optional_floats("initial_h",
                      "(N, layers * directions * units), the state before the first step; else 0")};
}

std::vector<AttributeSpec> layer_attributes(std::vector<AttributeSpec> own = {}) {
  constexpr double kMostLayers = 1000;
  std::vector<AttributeSpec> attributes = {
      integer_attribute("units", "", "size of the state, in each direction", 1,
                        static_cast<double>(kMaxSize / 4)),
      integer_attribute("layers", "1",
                        "number of layers; each reads the sequence of the one before it", 1,
                        kMostLayers),
      choice_attribute("direction", "forward",
                       "order of the steps; bidirectional joins both, forward first",
                       {"forward", "reverse", "bidirectional"}),
      fraction_attribute("dropout", "0",
                         "fraction of elements to drop between layers, in train jobs")};
  for (AttributeSpec& attribute : own) attributes.push_back(std::move(attribute));
  attributes.push_back({"use_bias", AttributeType::kBool, "true", "add biases"});
  attributes.push_back({"kernel_initializer", AttributeType::kInitializer, "glorot_uniform",
                        "initial value of `weight_ih`"});
  attributes.push_back({"recurrent_initializer", AttributeType::kInitializer, "glorot_uniform",
                        "initial value of `weight_hh`"});
  attributes.push_back(
      {"bias_initializer", AttributeType::kInitializer, "zeros", "initial value of the biases"});
  attributes.push_back({"kernel_regularizer", AttributeType::kRegularizer, "none",
                        "L1 or L2 penalty on `weight_ih`"});
  attributes.push_back({"recurrent_regularizer", AttributeType::kRegularizer, "none",
                        "L1 or L2 penalty on `weight_hh`"});
  attributes.push_back(
      {"bias_regularizer", AttributeType::kRegularizer, "none", "L1 or L2 penalty on the biases"});
  return attributes;
}

OperandSpec initial_c_operand() {
  OperandSpec operand = layer_operands().back();
  operand.name = "initial_c";
  operand.doc = "the same of the cell state";
  return operand;
}

std::vector<OperandSpec> lstm_layer_operands() {
  std::vector<OperandSpec> operands = layer_operands();
  operands.push_back(initial_c_operand());
  return operands;
}

}  // namespace

std::vector<OpSpec> recurrent() {
  return {
      {.name = "lstm",
       .doc = "Long short-term memory (Hochreiter and Schmidhuber, 1997), with PyTorch's "
              "variables.",
       .formula = "c = f c + i g, h = o tanh(c) with i, f, o = sigmoid(.), g = tanh(.) of "
                  "W_ih x + b_ih + W_hh h + b_hh",
       .operands = lstm_layer_operands(),
       .attributes = layer_attributes(),
       .results = {{"out"}, {"h"}, {"c"}},
       .takes_variables = true,
       .trains_otherwise = true},
      {.name = "gru",
       .doc = "Gated recurrent units (Cho et al., 2014), with PyTorch's variables.",
       .formula = "h = (1 - z) n + z h with r, z = sigmoid(.) of W_ih x + b_ih + W_hh h + b_hh, "
                  "n = tanh(W_in x + b_in + r (W_hn h + b_hn))",
       .operands = layer_operands(),
       .attributes = layer_attributes({linear_before_reset_attribute()}),
       .results = {{"out"}, {"h"}},
       .takes_variables = true,
       .trains_otherwise = true},
      {.name = "rnn",
       .doc = "A simple recurrent network (Elman, 1990), with PyTorch's variables.",
       .formula = "h = activation(W_ih x + b_ih + W_hh h + b_hh)",
       .operands = layer_operands(),
       .attributes = layer_attributes({activation_attribute()}),
       .results = {{"out"}, {"h"}},
       .takes_variables = true,
       .trains_otherwise = true},
      {.name = "lstm_steps",
       .doc = "The steps of an LSTM from the products of its input.",
       .formula = "c = f c + i g, h = o tanh(c) with i, f, o = sigmoid(.), g = tanh(.) of "
                  "gates + W h",
       .operands = {{"gates", "(N, T, 4 H): i, f, g, o"},
                    {"weight", "(4 H, H)"},
                    {"h0", "(N, H)"},
                    {"c0", "(N, H)"},
                    lengths_operand()},
       .attributes = {reverse_attribute()},
       .results = {{"out"},
                   {.name = "h", .optional = true},
                   {.name = "c", .optional = true},
                   {.name = "gates", .optional = true},
                   {.name = "cells", .optional = true}},
       .infer = infer_lstm_steps,
       .secondary_gradients = true,
       .layer = "lstm",
       .flops = {.product = steps_flops},
       .internal = true,
       .examples = {"lstm_steps(f32[2,3,8], f32[8,2], f32[2,2], f32[2,2])",
                    "lstm_steps(f32[5,10,12], f32[12,3], f32[5,3], f32[5,3], i32[5])",
                    "lstm_steps(f32[3,11,8], f32[8,2], f32[3,2], f32[3,2], i64[3]) "
                    "reverse=true"}},
      {.name = "gru_steps",
       .doc = "The steps of gated recurrent units from the products of their input.",
       .formula = "h = (1 - z) n + z h with r, z = sigmoid(gates + W h + b), "
                  "n = tanh(gates_n + r (W_n h + b_n))",
       .operands = {{"gates", "(N, T, 3 H): r, z, n"},
                    {"weight", "(3 H, H)"},
                    {"bias", "(3 H)"},
                    {"h0", "(N, H)"},
                    lengths_operand()},
       .attributes = {linear_before_reset_attribute(), reverse_attribute()},
       .results = {{"out"}, {.name = "h", .optional = true}, {.name = "gates", .optional = true}},
       .infer = infer_gru_steps,
       .secondary_gradients = true,
       .layer = "gru",
       .flops = {.product = steps_flops},
       .internal = true,
       .examples = {"gru_steps(f32[2,3,6], f32[6,2], f32[6], f32[2,2])",
                    "gru_steps(f32[2,4,9], f32[9,3], f32[9], f32[2,3]) "
                    "linear_before_reset=false",
                    "gru_steps(f32[5,10,6], f32[6,2], f32[6], f32[5,2], i32[5]) reverse=true",
                    "gru_steps(f32[3,12,6], f32[6,2], f32[6], f32[3,2], u8[3]) "
                    "linear_before_reset=false reverse=true"}},
      {.name = "rnn_steps",
       .doc = "The steps of a simple recurrent network from the products of its input.",
       .formula = "h = activation(gates + W h)",
       .operands =
           {{"gates", "(N, T, H)"}, {"weight", "(H, H)"}, {"h0", "(N, H)"}, lengths_operand()},
       .attributes = {activation_attribute(), reverse_attribute()},
       .results = {{"out"}, {.name = "h", .optional = true}},
       .infer = infer_rnn_steps,
       .secondary_gradients = true,
       .layer = "rnn",
       .flops = {.product = steps_flops},
       .internal = true,
       .examples = {"rnn_steps(f32[2,3,4], f32[4,4], f32[2,4])",
                    "rnn_steps(f32[5,10,3], f32[3,3], f32[5,3], i32[5]) activation=relu",
                    "rnn_steps(f32[3,13,2], f32[2,2], f32[3,2], i8[3]) reverse=true"}},
      {.name = "lstm_steps_grad",
       .doc = "Gradients of lstm_steps with respect to gates and states.",
       .formula = "back through the steps, from dy, dh and dc",
       .operands = {{"dy", "(N, T, H)"},
                    {"dh", "(N, H)"},
                    {"dc", "(N, H)"},
                    {"weight", "(4 H, H)"},
                    {"h0", "(N, H)"},
                    {"c0", "(N, H)"},
                    {"out", "result of the forward op"},
                    {"gates", "result of the forward op, (N, T, 4 H)"},
                    {"cells", "result of the forward op, (N, T, H)"},
                    lengths_operand()},
       .attributes = {reverse_attribute()},
       .results = {{"out"},
                   {.name = "previous", .optional = true},
                   {.name = "dh0", .optional = true},
                   {.name = "dc0", .optional = true}},
       .infer = infer_lstm_steps_grad,
       .flops = {.product = steps_grad_flops},
       .internal = true},
      {.name = "gru_steps_grad",
       .doc = "Gradients of gru_steps with respect to gates and states; `hidden` is that of "
              "W h + b, or with the reset gate first, r h.",
       .formula = "back through the steps, from dy and dh",
       .operands = {{"dy", "(N, T, H)"},
                    {"dh", "(N, H)"},
                    {"weight", "(3 H, H)"},
                    {"h0", "(N, H)"},
                    {"out", "result of the forward op"},
                    {"gates", "result of the forward op"},
                    lengths_operand()},
       .attributes = {linear_before_reset_attribute(), reverse_attribute()},
       .results = {{"out"},
                   {.name = "previous", .optional = true},
                   {.name = "dh0", .optional = true},
                   {.name = "hidden", .optional = true}},
       .infer = infer_gru_steps_grad,
       .flops = {.product = steps_grad_flops},
       .internal = true},
      {.name = "rnn_steps_grad",
       .doc = "Gradients of rnn_steps with respect to gates and the state.",
       .formula = "back through the steps, from dy and dh",
       .operands = {{"dy", "(N, T, H)"},
                    {"dh", "(N, H)"},
                    {"weight", "(H, H)"},
                    {"h0", "(N, H)"},
                    {"out", "result of the forward op"},
                    lengths_operand()},
       .attributes = {activation_attribute(), reverse_attribute()},
       .results = {{"out"},
                   {.name = "previous", .optional = true},
                   {.name = "dh0", .optional = true}},
       .infer = infer_rnn_steps_grad,
       .flops = {.product = steps_grad_flops},
       .internal = true},
  };
}

}  // namespace flow::ops
