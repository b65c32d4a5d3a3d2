// Expansion of recurrent layers into a product of all steps' input, followed by the steps; and the
// gradients of steps.
#include <string>
#include <utility>
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;
using Extents = std::vector<int64_t>;

/// The properties in which the three kinds of layers differ.
struct CellType {
  std::string_view steps;  // the name of the op
  int64_t gates;
  bool has_cell = false;            // the state has a second part, c
  bool has_own_bias = false;        // W h has a separate bias
  std::string_view attribute = {};  // an attribute that the layer and its steps share
};

constexpr CellType kLstm{.steps = "lstm_steps", .gates = 4, .has_cell = true};
constexpr CellType kGru{
    .steps = "gru_steps", .gates = 3, .has_own_bias = true, .attribute = "linear_before_reset"};
constexpr CellType kRnn{.steps = "rnn_steps", .gates = 1, .attribute = "activation"};

/// The indices of the layers' operands.
enum : size_t { kLengths = 1, kInitialH = 2, kInitialC = 3 };

class RecurrentLayer {
 public:
  RecurrentLayer(const LayerContext& context, const CellType& cell)
      : context_(context),
        cell_(cell),
        units_(context.attributes.get<int64_t>("units")),
        layers_(context.attributes.get<int64_t>("layers")),
        direction_(context.attributes.get<std::string>("direction")),
        has_bias_(context.attributes.get<bool>("use_bias")),
        rate_(context.attributes.get<double>("dropout")) {}

  ValueId expand() {
    if (!check_operands()) return {};
    ValueId sequence = context_.operands[0];
    for (int64_t layer = 0; layer < layers_; ++layer) {
      if (layer > 0) sequence = dropped(sequence, layer - 1);
      sequence = add_layer(sequence, layer);
      if (!sequence.valid()) return {};
    }
    for (const auto& [port, states] : {std::pair{"h", &last_h_}, {"c", &last_c_}})
      if (!states->empty())
        context_.builder.alias(fmt::format("{}.{}", context_.name, port),
                               joined(fmt::format("last_{}", port), *states, 1));
    return sequence;
  }

 private:
  bool has(size_t operand) const {
    return operand < context_.operands.size() && context_.operands[operand].valid();
  }
  const Shape& input() const { return context_.operand(0).shape; }
  int64_t directions() const { return direction_ == "bidirectional" ? 2 : 1; }

  bool check_operands() {
    if (input().rank() != 3) {
      context_.site().bad_operand(
          0, Diagnosis::kRankMismatch,
          fmt::format("{} does not have 3 dimensions; expected (batch, time, features)",
                      input().str()));
      return false;
    }
    const int64_t rows = input()[0];
    const bool lengths = check_shape(kLengths, {rows}, "an integer for each row");
    const Shape states{rows, layers_ * directions() * units_};
    const auto check = [&](size_t i) {
      return check_shape(i, states, "layers * directions * units numbers for each row");
    };
    return lengths && check(kInitialH) && check(kInitialC) && check_dropout();
  }

  /// Reports a dropout rate for a single layer, because dropout is applied only between layers.
  bool check_dropout() const {
    if (rate_ == 0 || layers_ > 1) return true;
    context_.site().bad_attribute(
        "dropout", Diagnosis::kBadAttribute,
        "dropout between layers needs `layers` of 2 or more; use the op `dropout` after the layer");
    return false;
  }

  bool check_shape(size_t operand, const Shape& expected, std::string_view what) {
    if (!has(operand) || context_.operand(operand).shape == expected) return true;
    context_.site().bad_operand(
        operand, Diagnosis::kShapeMismatch,
        fmt::format("{} is not {}: {}", context_.operand(operand).shape.str(), expected.str(),
                    what));
    return false;
  }

  ValueId dropped(ValueId sequence, int64_t layer) const {
    if (!context_.train || rate_ == 0) return sequence;
    const std::string part = fmt::format("dropout_l{}", layer);
    return context_.add("dropout", part, {sequence},
                        {{"rate", rate_}, {"consumer", context_.name + "/" + part}});
  }

  ValueId add_layer(ValueId sequence, int64_t layer) {
    std::vector<ValueId> both;
    const std::string name = fmt::format("_l{}", layer);
    if (directions() == 1) return add_steps(sequence, name, direction_ == "reverse");
    both.push_back(add_steps(sequence, name, false));
    both.push_back(add_steps(sequence, name + "_reverse", true));
    return joined("concat" + name, both, 2);
  }

  ValueId joined(const std::string& part, const std::vector<ValueId>& values, int64_t axis) const {
    for (const ValueId value : values)
      if (!value.valid()) return {};
    return values.size() == 1 ? values[0] : context_.add("concat", part, values, {{"axis", axis}});
  }

  /// Adds one layer in one direction. `name` is the suffix of its variables, such as "_l0".
  ValueId add_steps(ValueId sequence, const std::string& name, bool reverse) {
    if (!sequence.valid()) return {};
    const Shape x = context_.graph()[sequence].shape;
    const int64_t gates = cell_.gates * units_;
    const ValueId weight = add_weight("weight_ih" + name, "kernel_initializer", {gates, x[2]});
    const ValueId recurrent =
        add_weight("weight_hh" + name, "recurrent_initializer", {gates, units_});
    const ValueId flat = context_.reshape("flatten" + name, sequence, Extents{x[0] * x[1], x[2]});
    ValueId product =
        context_.add("matmul", "matmul" + name, {flat, weight}, {{"transpose_b", true}});
    ValueId bias, own_bias;
    if (has_bias_) {
      bias = add_bias("bias_ih" + name);
      own_bias = add_bias("bias_hh" + name);
      if (!cell_.has_own_bias) bias = context_.add("add", "bias" + name, {bias, own_bias});
      product =
          context_.add("bias_add", "bias_add" + name, {product, bias}, {{"axis", int64_t{1}}});
    } else if (cell_.has_own_bias) {
      own_bias = zeros("no_bias", {gates});
    }
    std::vector<ValueId> operands = {
        context_.reshape("restore" + name, product, Extents{x[0], x[1], gates}), recurrent};
    if (cell_.has_own_bias) operands.push_back(own_bias);
    operands.push_back(initial_state(kInitialH));
    if (cell_.has_cell) operands.push_back(initial_state(kInitialC));
    if (has(kLengths)) operands.push_back(context_.operands[kLengths]);
    ir::Attributes attributes{{"reverse", reverse}};
    if (!cell_.attribute.empty())
      attributes.set(cell_.attribute, *context_.attributes.find(cell_.attribute));
    const ValueId out =
        context_.add(cell_.steps, "steps" + name, std::move(operands), std::move(attributes));
    if (!out.valid()) return {};
    const std::vector<ValueId> results = context_.graph().producer_of(out)->results;
    last_h_.push_back(results[1]);
    if (cell_.has_cell) last_c_.push_back(results[2]);
    return out;
  }

  ValueId add_weight(const std::string& part, std::string_view initializer, const Shape& shape) {
    return context_.add_variable(part, initializer, context_.compute_dtype(), shape,
                                 fans_of(shape));
  }

  ValueId add_bias(const std::string& part) {
    const Shape shape{cell_.gates * units_};
    return context_.add_variable(part, "bias_initializer", context_.compute_dtype(), shape,
                                 fans_of(shape));
  }

  ValueId zeros(const std::string& part, Extents shape) const {
    return context_.fill(part, 0, Shape(std::move(shape)), context_.compute_dtype());
  }

  /// Returns the initial state of the next steps to be added.
  ValueId initial_state(size_t operand) {
    const std::string part = operand == kInitialH ? "initial_h" : "initial_c";
    if (!has(operand)) return zeros("zero", {input()[0], units_});
    if (layers_ * directions() == 1) return context_.operands[operand];
    const auto first = static_cast<int64_t>(last_h_.size()) * units_;
    return context_.add("slice", part, {context_.operands[operand]},
                        {{"index", fmt::format("[:, {}:{}]", first, first + units_)}});
  }

  const LayerContext& context_;
  const CellType& cell_;
  int64_t units_, layers_;
  std::string direction_;
  bool has_bias_;
  double rate_;
  std::vector<ValueId> last_h_, last_c_;  // one for each layer and direction
};

template <const CellType& kCell>
ValueId expand_recurrent(LayerContext& context) {
  return RecurrentLayer(context, kCell).expand();
}

/// Returns the gradient of result i, or zeros if it has none.
ValueId gradient_or_zeros(GradientContext& context, size_t i) {
  if (context.gradient(i).valid()) return context.gradient(i);
  const ir::Value like = context.value_of(context.result(i));
  return context.fill(0, 0, like.shape, like.dtype, "zeros");
}

/// Returns the results of the gradient op. `lengths` is the index of that operand in the forward
/// op.
std::vector<ValueId> add_steps_grad(GradientContext& context, std::string_view op,
                                    std::vector<ValueId> operands, size_t lengths) {
  if (lengths < context.node.operands.size()) operands.push_back(context.operand(lengths));
  return context.add_all(op, std::move(operands), context.node.attributes);
}

/// Returns [N, T, K] reshaped to [N T, K], so one product covers all steps.
ValueId flat_steps(GradientContext& context, size_t operand, ValueId steps) {
  const Shape shape = context.value_of(steps).shape;
  return context.reshape(operand, steps, {shape[0] * shape[1], shape[2]}, "flatten");
}

/// Returns the gradient of the recurrent weight, or of some of its rows: the sum over all steps of
/// `gates`^T `states`, both of which are flat.
ValueId weight_gradient(GradientContext& context, ValueId gates, ValueId states,
                        std::string_view part = {}) {
  return context.add("matmul", 1, {gates, states}, {{"transpose_a", true}}, part);
}

/// Returns the same gradient for all gates, or nothing if no gradient is requested.
ValueId whole_weight_gradient(GradientContext& context, ValueId gates, ValueId states) {
  if (!context.wanted[1]) return {};
  const ValueId flat_states = flat_steps(context, 1, states);
  return weight_gradient(context, flat_steps(context, 1, gates), flat_states);
}

std::vector<ValueId> lstm_steps_gradient(GradientContext& context) {
  const std::vector<ValueId> made =
      add_steps_grad(context, "lstm_steps_grad",
                     {gradient_or_zeros(context, 0), gradient_or_zeros(context, 1),
                      gradient_or_zeros(context, 2), context.operand(1), context.operand(2),
                      context.operand(3), context.result(0), context.result(3), context.result(4)},
                     4);
  std::vector<ValueId> gradients = {made[0], whole_weight_gradient(context, made[0], made[1]),
                                    made[2], made[3]};
  gradients.resize(context.node.operands.size());
  return gradients;
}

std::vector<ValueId> rnn_steps_gradient(GradientContext& context) {
  const std::vector<ValueId> made =
      add_steps_grad(context, "rnn_steps_grad",
                     {gradient_or_zeros(context, 0), gradient_or_zeros(context, 1),
                      context.operand(1), context.operand(2), context.result(0)},
                     3);
  std::vector<ValueId> gradients = {made[0], whole_weight_gradient(context, made[0], made[1]),
                                    made[2]};
  gradients.resize(context.node.operands.size());
  return gradients;
}

/// Returns the gradient of W if the reset gate comes before the product. The rows of W for the new
/// gate are then multiplied by r h, and the other rows by h.
ValueId weight_gradient_of_reset_first(GradientContext& context, const std::vector<ValueId>& made) {
  const int64_t units = context.value_of(context.operand(1)).shape[1];
  const ValueId flat = flat_steps(context, 1, made[0]);
  const auto rows = [&](int64_t first, int64_t end) {
    return context.add("slice", 1, {flat}, {{"index", fmt::format("[:, {}:{}]", first, end)}},
                       "slice");
  };
  const ValueId states = flat_steps(context, 1, made[1]);
  const ValueId reset_update = weight_gradient(context, rows(0, 2 * units), states, "reset_update");
  const ValueId reset_states = flat_steps(context, 1, made[3]);
  const ValueId next = weight_gradient(context, rows(2 * units, 3 * units), reset_states, "new");
  return context.add("concat", 1, {reset_update, next}, {{"axis", int64_t{0}}});
}

std::vector<ValueId> gru_steps_gradient(GradientContext& context) {
  const std::vector<ValueId> made =
      add_steps_grad(context, "gru_steps_grad",
                     {gradient_or_zeros(context, 0), gradient_or_zeros(context, 1),
                      context.operand(1), context.operand(3), context.result(0), context.result(2)},
                     4);
  const bool linear = context.node.attributes.get<bool>("linear_before_reset");
  std::vector<ValueId> gradients = {made[0], {}, {}, made[2]};
  gradients.resize(context.node.operands.size());
  const ValueId hidden = made[linear ? 3 : 0];  // the gradient of W h + b
  if (linear)
    gradients[1] = whole_weight_gradient(context, hidden, made[1]);
  else if (context.wanted[1])
    gradients[1] = weight_gradient_of_reset_first(context, made);
  if (context.wanted[2])
    gradients[2] =
        context.add("bias_add_grad", 2, {flat_steps(context, 2, hidden)}, {{"axis", int64_t{1}}});
  return gradients;
}

}  // namespace

std::vector<Rules> recurrent() {
  return {{"lstm", nullptr, expand_recurrent<kLstm>}, {"gru", nullptr, expand_recurrent<kGru>},
          {"rnn", nullptr, expand_recurrent<kRnn>},   {"lstm_steps", lstm_steps_gradient},
          {"gru_steps", gru_steps_gradient},          {"rnn_steps", rnn_steps_gradient}};
}

}  // namespace flow::grad
