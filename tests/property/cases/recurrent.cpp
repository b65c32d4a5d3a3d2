// Random calls: the steps of recurrent layers, and their gradients, of what the reference made.
#include <cmath>
#include <initializer_list>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

/// Sizes of a call; `saved`: of the gates that the forward op keeps.
struct Steps {
  Steps(Random& random, int64_t unit_gates)
      : rows(extent(random, 40)),
        steps(extent(random, 7)),
        units(extent(random, 17)),
        gates(unit_gates * units) {}

  Result all(int64_t width) const { return {kF, {rows, steps, width}}; }
  Result state() const { return {kF, {rows, units}}; }

  int64_t rows, steps, units, gates;
};

/// Small enough that rounding errors do not grow from step to step.
Array recurrent_weight(Random& random, const Steps& of) {
  Array weight = random_array(random, kF, {of.gates, of.units});
  for (float& value : weight.as<float>()) value /= std::sqrt(static_cast<float>(of.units));
  return weight;
}

Array state(Random& random, const Steps& of) {
  return random_array(random, kF, {of.rows, of.units});
}

/// In half of the calls.
void add_lengths(Random& random, const Steps& of, KernelCase& one) {
  if (random_between(random, 0, 1) == 1)
    one.inputs.push_back(random_labels(random, pick_integer(random), {of.rows}, of.steps + 1));
}

/// The results of the forward op.
std::vector<Array> results_of(const KernelCase& forward) {
  return run_kernel(forward, {cpu::reference_kernels()}).outputs;
}

/// Random gradients of results, then operands and results of the forward op; the lengths last.
std::vector<Array> gradient_inputs(Random& random, const KernelCase& forward, size_t gradients,
                                   size_t lengths, std::initializer_list<size_t> operands,
                                   std::initializer_list<size_t> results) {
  const std::vector<Array> made = results_of(forward);
  std::vector<Array> inputs;
  for (size_t i = 0; i < gradients; ++i)
    inputs.push_back(random_array(random, kF, forward.results[i].shape));
  for (const size_t i : operands) inputs.push_back(forward.inputs[i]);
  for (const size_t i : results) inputs.push_back(made[i]);
  if (lengths < forward.inputs.size()) inputs.push_back(forward.inputs[lengths]);
  return inputs;
}

bool coin(Random& random) { return random_between(random, 0, 1) == 1; }

KernelCase lstm(const std::string& op, Random& random) {
  const Steps of(random, 4);
  KernelCase one{"lstm_steps",
                 {{"reverse", coin(random)}},
                 {random_array(random, kF, of.all(of.gates).shape), recurrent_weight(random, of),
                  state(random, of), state(random, of)},
                 {of.all(of.units), of.state(), of.state(), of.all(of.gates), of.all(of.units)}};
  add_lengths(random, of, one);
  if (op == one.op) return one;
  return {op,
          one.attributes,
          gradient_inputs(random, one, 3, 4, {1, 2, 3}, {0, 3, 4}),
          {of.all(of.gates), of.all(of.units), of.state(), of.state()}};
}

KernelCase gru(const std::string& op, Random& random) {
  const Steps of(random, 3);
  const bool linear = coin(random);
  KernelCase one{"gru_steps",
                 {{"reverse", coin(random)}, {"linear_before_reset", linear}},
                 {random_array(random, kF, of.all(of.gates).shape), recurrent_weight(random, of),
                  random_array(random, kF, {of.gates}), state(random, of)},
                 {of.all(of.units), of.state(), of.all((linear ? 4 : 3) * of.units)}};
  add_lengths(random, of, one);
  if (op == one.op) return one;
  return {op,
          one.attributes,
          gradient_inputs(random, one, 2, 4, {1, 3}, {0, 2}),
          {of.all(of.gates), of.all(of.units), of.state(), of.all(linear ? of.gates : of.units)}};
}

KernelCase rnn(const std::string& op, Random& random) {
  const Steps of(random, 1);
  KernelCase one{
      "rnn_steps",
      {{"reverse", coin(random)}, {"activation", std::string(coin(random) ? "relu" : "tanh")}},
      {random_array(random, kF, of.all(of.gates).shape), recurrent_weight(random, of),
       state(random, of)},
      {of.all(of.units), of.state()}};
  add_lengths(random, of, one);
  if (op == one.op) return one;
  return {op,
          one.attributes,
          gradient_inputs(random, one, 2, 3, {1, 2}, {0}),
          {of.all(of.units), of.all(of.units), of.state()}};
}

/// Of all steps.
int64_t products(const KernelCase& one) {
  const Shape& steps = one.inputs[0].shape();
  return 16 * steps[1] * steps[2];
}

}  // namespace

std::span<const CaseMaker> recurrent_cases() {
  static constexpr CaseMaker kCases[] = {
      {"lstm_steps", lstm, products}, {"lstm_steps_grad", lstm, products},
      {"gru_steps", gru, products},   {"gru_steps_grad", gru, products},
      {"rnn_steps", rnn, products},   {"rnn_steps_grad", rnn, products},
  };
  return kCases;
}

}  // namespace flow::test
