// Random calls: dropout, losses, updates.
#include <cmath>

#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase dropout(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op, {{"rate", 0.3}}, {random_array(random, kF, shape)}, {{kF, shape}}};
  if (op == "dropout") {
    one.attributes.push_back({"consumer", std::string("net/drop")});
    one.results.push_back({DType::kBool, shape});
  } else {
    one.inputs.push_back(random_array(random, DType::kBool, shape));
  }
  return one;
}

KernelCase loss(const std::string& op, Random& random) {
  const bool wide = random_between(random, 0, 5) == 0;
  const Shape rows = {extent(random, wide ? 3 : 127)};
  const int64_t classes = wide ? 20011 : extent(random, 127);
  const Shape logits = {rows[0], classes};
  KernelCase one{op, {}, {}, {}};
  one.inputs.push_back(random_labels(random, pick_integer(random), rows, classes));
  one.inputs.push_back(random_array(random, kF, logits));
  one.results = {{kF, rows}, {kF, logits}};
  for (float& x : one.inputs[1].as<float>()) x *= 30;
  if (op == "sparse_softmax_cross_entropy_with_logits") return one;
  for (float& x : one.inputs[1].as<float>()) x = (x + 30) / 60;
  one.inputs.push_back(random_array(random, kF, rows));
  one.results = {{kF, logits}};
  return one;
}

/// Labels are shares; what they are taken of goes up to 60.
KernelCase dense_loss(const std::string& op, Random& random) {
  const bool wide = random_between(random, 0, 5) == 0;
  const Shape logits = {extent(random, wide ? 3 : 127), wide ? 20011 : extent(random, 127)};
  const Shape rows = {logits[0]};
  KernelCase one{op, {}, {random_array(random, kF, logits), random_array(random, kF, logits)}, {}};
  for (float& z : one.inputs[0].as<float>()) z = std::abs(z) / static_cast<float>(logits[1]);
  const bool forward = op == "softmax_cross_entropy_with_logits";
  for (float& x : one.inputs[1].as<float>()) x = forward ? x * 30 : std::abs(x);
  if (forward) {
    one.results = {{kF, rows}, {kF, logits}};
  } else {
    one.inputs.push_back(random_array(random, kF, rows));
    one.results = {{kF, logits}};
  }
  return one;
}

/// The classes, of logits that are rounded before they are taken from 60 and raised.
int64_t logits_terms(const KernelCase& one) { return 256 + one.inputs[0].shape()[1]; }

KernelCase update(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op, {{"scale", 0.01}}, {}, {{kF, shape, 1}}};
  one.inputs.push_back(random_array(random, kF, shape));
  one.inputs.push_back(random_array(random, kF, shape));
  if (op == "sgd_update") return one;
  one.inputs.push_back(random_array(random, kF, shape));
  one.results.push_back({kF, shape, 2});
  one.attributes.push_back({"momentum", 0.9});
  one.attributes.push_back({"nesterov", random_between(random, 0, 1) == 1});
  return one;
}

/// Products added up by an update.
int64_t update_terms(const KernelCase&) { return 3; }

}  // namespace

std::span<const CaseMaker> training_cases() {
  static constexpr CaseMaker kCases[] = {
      {"dropout", dropout},
      {"dropout_grad", dropout},
      {"sparse_softmax_cross_entropy_with_logits", loss},
      {"sparse_softmax_cross_entropy_with_logits_grad", loss},
      {"softmax_cross_entropy_with_logits", dense_loss, logits_terms},
      {"softmax_cross_entropy_with_logits_grad", dense_loss, logits_terms},
      {"sgd_update", update, update_terms},
      {"momentum_update", update, update_terms},
  };
  return kCases;
}

}  // namespace flow::test
