// Random calls: losses, updates and what is done to gradients before.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/spec.h"
#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

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

/// As many frames as the labels need, of labels and inputs of several lengths.
KernelCase ctc(const std::string& op, Random& random) {
  const int64_t samples = extent(random, 5), labels = extent(random, 6);
  const int64_t classes = 1 + extent(random, 8), frames = 2 * labels + extent(random, 9);
  const Shape rows = {samples}, log_probs = {samples, frames, classes};
  std::vector<int32_t> label_lengths, input_lengths;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t own = random_between(random, 0, labels);
    label_lengths.push_back(static_cast<int32_t>(own));
    input_lengths.push_back(static_cast<int32_t>(random_between(random, 2 * own + 1, frames)));
  }
  KernelCase one{op, {{"blank", random_between(random, 0, classes - 1)}}, {}, {{kF, rows}}};
  one.inputs.push_back(random_labels(random, pick_integer(random), {samples, labels}, classes));
  one.inputs.push_back(random_array(random, kF, log_probs));
  for (const std::vector<int32_t>& lengths : {label_lengths, input_lengths}) {
    Array& array = one.inputs.emplace_back(DType::kInt32, rows);
    std::ranges::copy(lengths, array.as<int32_t>().begin());
  }
  if (op == "ctc") {
    one.attributes.emplace_back("zero_infinity", false);
  } else {
    one.inputs.push_back(random_array(random, kF, rows));
    one.results = {{kF, log_probs}};
  }
  return one;
}

/// Log-probabilities along a path.
int64_t frames_of(const KernelCase& one) { return one.inputs[1].shape()[1]; }

/// The numbers of an op, and how many slots it has.
struct UpdateNumbers {
  std::vector<std::pair<std::string, plan::Attribute>> attributes;
  int slots = 0;
};

UpdateNumbers numbers_of(const std::string& op, Random& random) {
  const bool coin = random_between(random, 0, 1) == 1;
  const double weight_decay = random_between(random, 0, 1) == 1 ? 0.01 : 0;
  const double epsilon = random_between(random, 0, 1) == 1 ? 0.25 : 1e-8;
  if (op.ends_with("sgd_update")) return {};
  if (op == "momentum_update")
    return {{{"momentum", 0.9}, {"nesterov", coin}, {"weight_decay", weight_decay}}, 1};
  if (op.ends_with("rmsprop_update")) {
    UpdateNumbers rmsprop{{{"decay_rate", 0.99}, {"epsilon", epsilon}}, 1};
    if (coin) rmsprop.attributes.emplace_back("epsilon_inside", false);
    if (op.find("momentum") != op.npos) rmsprop.attributes.emplace_back("momentum", 0.9);
    rmsprop.slots += (op.find("momentum") != op.npos) + (op.find("centered") != op.npos);
    return rmsprop;
  }
  if (op == "lars_update")
    return {{{"momentum_beta", 0.9},
             {"epsilon", 1e-9},
             {"lars_coefficient", 0.02},
             {"weight_decay", weight_decay}},
            1};
  if (op.ends_with("adagrad_update")) return {{{"epsilon", epsilon}}, 1};
  if (op == "sparse_adam_update")
    return {{{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", epsilon}, {"bias_correction", coin}}, 2};
  if (op == "adadelta_update") return {{{"decay_rate", 0.9}, {"epsilon", epsilon}}, 2};
  if (op == "lion_update")
    return {{{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", weight_decay}}, 1};
  if (op == "ftrl_update") return {{{"beta", 1.0}, {"l1", coin ? 0.3 : 0.0}, {"l2", 0.5}}, 2};
  UpdateNumbers adam{
      {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", epsilon}, {"weight_decay", weight_decay}}, 2};
  if (op == "adam_update" || op == "amsgrad_update")
    adam.attributes.emplace_back("bias_correction", coin);
  if (op == "amsgrad_update") adam.slots = 3;
  if (op == "nadam_update") adam.attributes.emplace_back("momentum_decay", coin ? 0.5 : 4e-3);
  if (op == "radam_update" && coin) adam.attributes[1].second = 0.9;  // rectified
  return adam;
}

/// What a mean of squares may be: far enough from 0 that its root is as exact as it is.
void make_squares(Array& slot) {
  for (float& x : slot.as<float>()) x = 0.25f + 0.75f * std::abs(x);
}

/// Does a plan's step of the op take that attribute?
bool has_attribute(const std::string& op, std::string_view name) {
  return std::ranges::count(ops::find_spec(op)->plan_attributes, name, &ops::PlanAttribute::name) >
         0;
}

KernelCase update(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  const UpdateNumbers numbers = numbers_of(op, random);
  KernelCase one{op, numbers.attributes, {}, {}};
  one.attributes.push_back({"scale", 0.01});
  one.attributes.push_back({"rate_scale", random_between(random, 0, 1) == 1 ? 10.0 : 1.0});
  if (has_attribute(op, "l2_decay") && random_between(random, 0, 1) == 1)
    one.attributes.push_back({"l2_decay", 0.01});
  one.inputs.push_back(random_array(random, kF, shape));
  for (int i = 1; i <= 1 + numbers.slots; ++i) {
    one.inputs.push_back(random_array(random, kF, shape));
    one.results.push_back({kF, shape, i});
  }
  if (op == "lars_update" || op == "lamb_update")  // a norm of 0 has a ratio of its own
    if (const int64_t zero = random_between(random, 0, 5); zero < 2)
      std::ranges::fill(one.inputs[static_cast<size_t>(zero)].as<float>(), 0.0f);
  if (op.ends_with("rmsprop_update") || op.starts_with("adag") || op.starts_with("adad") ||
      op == "ftrl_update")
    make_squares(one.inputs[2]);
  if (op.ends_with("adam_update") || op == "adadelta_update" || op == "lamb_update" ||
      op == "amsgrad_update")
    make_squares(one.inputs[3]);
  if (op == "amsgrad_update") make_squares(one.inputs[4]);
  if (op.starts_with("centered"))  // a mean whose square is below the mean square
    for (float& x : one.inputs[3].as<float>()) x *= 0.25f;
  if (random_between(random, 0, 1) == 1)
    one.inputs.push_back(array_of<float>({}, {0.375f}));  // the factor of clipped gradients
  return one;
}

/// Some rows of a variable in order, as sparse_gather_grad makes them: -1 behind them.
KernelCase sparse_update(const std::string& op, Random& random) {
  Shape variable = with_few_rows(any_shape(random, 1), 0, 1);
  const int64_t count = extent(random, 40);
  const UpdateNumbers numbers = numbers_of(op, random);
  KernelCase one{op, numbers.attributes, {}, {}};
  one.attributes.push_back({"scale", 0.01});
  one.attributes.push_back({"rate_scale", random_between(random, 0, 1) == 1 ? 10.0 : 1.0});
  std::vector<int64_t> rows = variable.extents();
  rows[0] = count;
  one.inputs.push_back(random_array(random, kF, Shape(rows)));
  for (int i = 1; i <= 1 + numbers.slots; ++i) {
    one.inputs.push_back(random_array(random, kF, variable));
    one.results.push_back({kF, variable, random_between(random, 0, 1) == 1 ? i : -1});
  }
  if (numbers.slots > 0) make_squares(one.inputs.back());
  Array indices(DType::kInt64, {count});
  int64_t next = random_between(random, 0, 2);
  for (int64_t& index : indices.as<int64_t>()) {
    index = next < variable[0] ? next : -1;
    next += 1 + random_between(random, 0, 2);
  }
  one.inputs.push_back(std::move(indices));
  if (random_between(random, 0, 1) == 1)
    one.inputs.push_back(array_of<float>({}, {0.375f}));  // the factor of clipped gradients
  return one;
}

/// A variable that was updated, and its average.
KernelCase average(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  const double decay = random_between(random, 0, 1) == 1 ? 0.999 : 0.25;
  return {op,
          {{"decay", decay}},
          {random_array(random, kF, shape), random_array(random, kF, shape)},
          {{kF, shape, 1}}};
}

/// A slot or a variable that follows another array of its shape.
KernelCase adafactor_mean(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  const bool coin = random_between(random, 0, 1) == 1;
  KernelCase one{op, {{"beta2_decay", coin ? -0.8 : -0.5}, {"scale", 0.5}}, {}, {{kF, shape, 1}}};
  for (int i = 0; i < 2; ++i) {
    one.inputs.push_back(random_array(random, kF, shape));
    make_squares(one.inputs.back());
  }
  if (coin) one.inputs.push_back(array_of<float>({}, {0.375f}));
  return one;
}

KernelCase adafactor_update(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  const bool coin = random_between(random, 0, 1) == 1;
  KernelCase one{op,
                 {{"epsilon1", coin ? 0.75 : 1e-7},
                  {"epsilon2", coin ? 0.75 : 1e-3},
                  {"clip_threshold", coin ? 1.0 : 1.25},
                  {"weight_decay", random_between(random, 0, 1) == 1 ? 0.01 : 0.0},
                  {"scale", 2.0},
                  {"rate_scale", coin ? 10.0 : 1.0}},
                 {},
                 {{kF, shape, 1}}};
  for (int i = 0; i < 3; ++i) one.inputs.push_back(random_array(random, kF, shape));
  make_squares(one.inputs[2]);
  if (random_between(random, 0, 1) == 1) one.inputs.push_back(array_of<float>({}, {0.375f}));
  return one;
}

KernelCase muon_direction(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{
      op,
      {{"momentum", 0.95}, {"nesterov", random_between(random, 0, 1) == 1}, {"scale", 0.01}},
      {random_array(random, kF, shape), random_array(random, kF, shape)},
      {{kF, shape}, {kF, shape, 1}}};
  if (const int64_t factor = random_between(random, 0, 2); factor > 0)
    one.inputs.push_back(
        array_of<float>({}, {factor == 1 ? 0.375f : std::numeric_limits<float>::quiet_NaN()}));
  return one;
}

KernelCase muon_polynomial(const std::string& op, Random& random) {
  const int64_t rows = extent(random, 200);
  return {op,
          {{"a", 3.4445}, {"b", -4.775}, {"c", 2.0315}},
          {random_array(random, kF, {rows, rows}), random_array(random, kF, {rows, rows})},
          {{kF, {rows, rows}}}};
}

KernelCase muon_update(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op,
                 {{"scale", 1.5},
                  {"rate_scale", 1.0},
                  {"weight_decay", random_between(random, 0, 1) == 1 ? 0.1 : 0.0}},
                 {random_array(random, kF, shape), random_array(random, kF, shape)},
                 {{kF, shape, 1}}};
  if (random_between(random, 0, 1) == 1) one.inputs.push_back(array_of<float>({}, {0.375f}));
  return one;
}

/// The first step of a cycle, one within it, and its last.
KernelCase lookahead(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op,
                 {{"steps", random_between(random, 1, 6)}},
                 {random_array(random, kF, shape), random_array(random, kF, shape)},
                 {{kF, shape, 1}}};
  if (op == "lookahead_update") one.attributes.emplace_back("alpha", 0.5);
  return one;
}

KernelCase regularize(const std::string& op, Random& random) {
  const Shape shape = any_shape(random);
  KernelCase one{op, {{"l1", 0.01}, {"l2", 0.02}}, {}, {{kF, shape, 0}}};
  one.inputs = {random_array(random, kF, shape), random_array(random, kF, shape)};
  for (float& x : one.inputs[1].as<float>())
    if (random_between(random, 0, 3) == 0) x = 0;
  return one;
}

KernelCase clip_factor(const std::string& op, Random& random) {
  KernelCase one{op, {{"clip_norm", 0.5}, {"scale", 0.05}}, {}, {{kF, {}}, {kF, {}}}};
  if (random_between(random, 0, 1) == 1) one.attributes.emplace_back("epsilon", 0.125);
  for (int64_t i = random_between(random, 1, 6); i > 0; --i)
    one.inputs.push_back(random_array(random, kF, any_shape(random)));
  return one;
}

KernelCase unscale_factor(const std::string& op, Random& random) {
  KernelCase one = clip_factor(op, random);
  one.attributes[0].second = random_between(random, 0, 1) == 1 ? 0.5 : 0.0;
  one.inputs.insert(one.inputs.begin(), array_of<float>({}, {1024.0f}));
  if (random_between(random, 0, 3) == 0)
    one.inputs.back().as<float>()[0] = std::numeric_limits<float>::infinity();
  return one;
}

/// A factor that is NaN or not, around the step at which the scale grows.
KernelCase move_loss_scale(const std::string& op, Random& random) {
  const bool skipped = random_between(random, 0, 2) == 0;
  const float factor = skipped ? std::numeric_limits<float>::quiet_NaN() : 0x1p-10f;
  const auto steps = static_cast<float>(random_between(random, 0, 4));
  return {
      op,
      {{"backoff_factor", 0.5}, {"growth_factor", 2.0}, {"growth_interval", 3.0}},
      {array_of<float>({}, {factor}), array_of<float>({}, {1024.0f}), array_of<float>({}, {steps})},
      {{kF, {}, 1}, {kF, {}, 2}}};
}

/// Squares added up.
int64_t clip_terms(const KernelCase& one) {
  int64_t terms = 0;
  for (const Array& gradient : one.inputs) terms += gradient.shape().elements();
  return terms;
}

/// Products added up by an update.
int64_t update_terms(const KernelCase&) { return 3; }

/// The same by norms, whose errors partly cancel in their sums of squares, all of one sign.
int64_t norm_terms(const KernelCase& one) { return 3 + one.inputs[0].shape().elements() / 8; }

}  // namespace

std::span<const CaseMaker> training_cases() {
  static constexpr CaseMaker kCases[] = {
      {"sparse_softmax_cross_entropy_with_logits", loss},
      {"sparse_softmax_cross_entropy_with_logits_grad", loss},
      {"softmax_cross_entropy_with_logits", dense_loss, logits_terms},
      {"softmax_cross_entropy_with_logits_grad", dense_loss, logits_terms},
      {"adadelta_update", update, update_terms},
      {"adafactor_mean", adafactor_mean, update_terms},
      {"adafactor_update", adafactor_update, norm_terms},
      {"adagrad_update", update, update_terms},
      {"adam_update", update, update_terms},
      {"amsgrad_update", update, update_terms},
      {"centered_momentum_rmsprop_update", update, update_terms},
      {"centered_rmsprop_update", update, update_terms},
      {"clip_factor", clip_factor, clip_terms},
      {"ctc", ctc, frames_of},
      {"ctc_grad", ctc, frames_of},
      {"ema_update", average, update_terms},
      {"ftrl_update", update, update_terms},
      {"lamb_update", update, norm_terms},
      {"lars_update", update, norm_terms},
      {"lion_update", update, update_terms},
      {"lookahead_start", lookahead},
      {"lookahead_update", lookahead, update_terms},
      {"momentum_rmsprop_update", update, update_terms},
      {"momentum_update", update, update_terms},
      {"move_loss_scale", move_loss_scale},
      {"muon_direction", muon_direction, update_terms},
      {"muon_polynomial", muon_polynomial, update_terms},
      {"muon_update", muon_update, update_terms},
      {"nadam_update", update, update_terms},
      {"radam_update", update, update_terms},
      {"regularize", regularize, update_terms},
      {"rmsprop_update", update, update_terms},
      {"sgd_update", update, update_terms},
      {"sparse_adagrad_update", sparse_update, update_terms},
      {"sparse_adam_update", sparse_update, update_terms},
      {"sparse_sgd_update", sparse_update, update_terms},
      {"unscale_factor", unscale_factor, clip_terms},
  };
  return kCases;
}

}  // namespace flow::test
