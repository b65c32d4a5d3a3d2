// Specifications of losses. Elementwise losses, which are rows of binary.def, are differences
// between a prediction and a target, and the binary cross entropy. Connectionist temporal
// classification needs no alignment of labels and frames. The remaining losses are made of other
// ops.
#include "ops/core/families.h"
#include "ops/losses/losses.h"

namespace flow::ops {
namespace {

void infer_loss_element(Call& call) {
  if (call.same_dtype() && equal_or_numbers(call)) infer_broadcast(call);
}

void check_beta(Call& call) {
  if (const double beta = call.attribute<double>("beta"); !(beta > 0))
    call.bad_attribute("beta", Reason::kOutOfRange,
                       fmt::format("`beta` is {}; expected above 0", beta));
}

void infer_smooth_l1(Call& call) {
  check_beta(call);
  infer_loss_element(call);
}

/// The operands of a loss and of its gradient, and the attributes that both have.
struct LossParameters {
  std::vector<OperandSpec> operands, grad_operands;
  std::string_view grad_doc;
  std::vector<AttributeSpec> attributes = {};
  InferRule infer = infer_loss_element;
};

LossParameters difference() {
  return {{{"prediction", "any shape"}, {"target", "same shape, or a number"}},
          {{"dy", "same shape as the loss"}, {"a", "prediction"}, {"b", "target"}},
          "Gradient of the loss in its name with respect to the prediction."};
}

LossParameters smooth_difference() {
  LossParameters parameters = difference();
  parameters.attributes = {
      number_attribute("beta", "1", "error above which the loss is linear, above 0")};
  parameters.infer = infer_smooth_l1;
  return parameters;
}

LossParameters binary_cross_entropy() {
  return {{{"labels", "any shape"}, {"logits", "same shape, or a number"}},
          {{"dy", "same shape as the loss"}, {"labels", "labels"}, {"logits", "logits"}},
          "Gradient of the loss with respect to the logits."};
}

OpSpec loss_spec(std::string_view name, LossParameters parameters, std::string_view doc,
                 std::string_view formula, std::string_view numpy,
                 std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = std::move(parameters.operands),
          .attributes = std::move(parameters.attributes),
          .infer = parameters.infer,
          .in_place = {0, 1},
          .numpy = numpy,
          .examples = std::move(examples)};
}

OpSpec loss_grad_spec(std::string_view name, LossParameters parameters, std::string_view formula) {
  return {.name = name,
          .doc = parameters.grad_doc,
          .formula = formula,
          .operands = std::move(parameters.grad_operands),
          .attributes = std::move(parameters.attributes),
          .infer = infer_broadcast,
          .in_place = {0, 1, 2},
          .linear = {0},
          .internal = true};
}

int64_t classes_of_ctc(std::span<const Shape> operands, const Attributes&) {
  return operands[1][2];
}
int64_t most_labels(std::span<const Shape> operands, const Attributes&) {
  return operands[0][1] + 1;
}
int64_t most_frames(std::span<const Shape> operands, const Attributes&) {
  return operands[1][1] + 1;
}

bool is_of_rank(Call& call, size_t i, int rank, std::string_view what) {
  if (call.shape(i).rank() == rank) return true;
  call.bad_operand(
      i, Reason::kRankMismatch,
      fmt::format("{} of rank {}; expected {}", call.shape(i).str(), call.shape(i).rank(), what));
  return false;
}

/// Checks that each operand starting with `first` has one number for each sample.
void check_lengths(Call& call, size_t first) {
  const Shape expected{call.shape(1)[0]};
  for (size_t i = first; i < call.operands(); ++i)
    if (call.shape(i) != expected)
      call.bad_operand(i, Reason::kShapeMismatch,
                       fmt::format("{} for log-probabilities {}; expected {}", call.shape(i).str(),
                                   call.shape(1).str(), expected.str()));
}

bool ctc_operands_fit(Call& call) {
  if (!is_of_rank(call, 1, 3, "(N, T, C)") || !is_of_rank(call, 0, 2, "(N, S)")) return false;
  const Shape &labels = call.shape(0), &log_probs = call.shape(1);
  if (labels[0] != log_probs[0])
    call.bad_operand(
        0, Reason::kShapeMismatch,
        fmt::format("labels of {} samples for log-probabilities of {}", labels[0], log_probs[0]));
  check_lengths(call, 2);
  if (const auto blank = call.attribute<int64_t>("blank"); blank < 0 || blank >= log_probs[2])
    call.bad_attribute(
        "blank", Reason::kOutOfRange,
        fmt::format("`blank` is {}; expected a class from 0 to {}", blank, log_probs[2] - 1));
  // Kernels keep a number for each frame and state of each sample, and up to three more rows of
  // states.
  if (!Shape{labels[0], log_probs[1] + 3, 2 * labels[1] + 1}.checked_elements())
    call.bad_operand(0, Reason::kTensorTooLarge,
                     fmt::format("labels {} are too large for {} frames; the product of both "
                                 "extents is limited",
                                 labels.str(), log_probs[1]));
  return !call.failed();
}

/// Returns the batch axis of the samples. Each sample depends only on its row of each operand.
int batch_of_samples(const Call& call) {
  int batch = kNoBatch;
  for (size_t i = 0; i < call.operands(); ++i)
    batch = common_batch(batch, batch_along(call.operand(i).batch_axis, 0));
  return batch;
}

void infer_ctc(Call& call) {
  if (!ctc_operands_fit(call)) return;
  call.result(call.dtype(1), Shape{call.shape(1)[0]}, batch_of_samples(call));
}

void infer_ctc_grad(Call& call) {
  if (!ctc_operands_fit(call)) return;
  call.result(call.dtype(1), call.shape(1), batch_of_samples(call));
}

std::vector<OperandSpec> ctc_operands() {
  return {integers("labels", "(N, S), each in [0, C), padding too", classes_of_ctc),
          {"log_probs", "(N, T, C)"},
          integers("label_lengths", "(N), each in [0, S]", most_labels),
          integers("input_lengths", "(N), each in [0, T]", most_frames)};
}

std::vector<OperandSpec> ctc_grad_operands() {
  std::vector<OperandSpec> operands = ctc_operands();
  operands.push_back({"dy", "(N)"});
  return operands;
}

AttributeSpec blank_attribute() {
  return {"blank", AttributeType::kInteger, "0", "class of no label"};
}

AttributeSpec number_above_0(std::string_view name, std::string_view fallback,
                             std::string_view doc) {
  return number_attribute(name, fallback, doc, 1e-30);
}

AttributeSpec margin_attribute(std::string_view fallback) {
  return {"margin", AttributeType::kNumber, fallback, "smallest difference without a loss"};
}

OperandSpec vectors(std::string_view name) { return {name, "(..., D)"}; }

}  // namespace

bool equal_or_numbers(Call& call) {
  const Shape& first = call.shape(0);
  const Shape& second = call.shape(1);
  if (first == second || first.rank() == 0 || second.rank() == 0) return true;
  call.bad_operand(1, Reason::kShapeMismatch,
                   fmt::format("the operands are {} and {}; expected equal shapes", first.str(),
                               second.str()))
      .with_hint("losses do not broadcast; use `reshape` to make the shapes equal");
  return false;
}

bool are_vectors(Call& call, size_t first) {
  const Shape& expected = call.shape(first);
  if (expected.rank() == 0) {
    call.bad_operand(first, Reason::kRankMismatch,
                     "a scalar; expected vectors along the last axis");
    return false;
  }
  for (size_t i = first + 1; i < call.operands(); ++i)
    if (call.shape(i) != expected)
      call.bad_operand(i, Reason::kShapeMismatch,
                       fmt::format("the operands are {} and {}; expected equal shapes",
                                   expected.str(), call.shape(i).str()));
  return !call.failed();
}

std::vector<OpSpec> losses() {
  return {
#define FLOW_LOSS(op, functor, parameters, doc, formula, numpy, grad_formula, ...) \
  loss_spec(#op, parameters, doc, formula, numpy, {__VA_ARGS__}),                  \
      loss_grad_spec(#op "_grad", parameters, grad_formula),
#include "ops/binary/binary.def"
      {.name = "ctc",
       .doc = "Connectionist temporal classification (Graves et al., 2006); one loss per "
              "sample.",
       .formula = "loss = -log(sum of the probabilities of all paths of the frames that give "
                  "the labels when repeated classes are merged and blanks removed)",
       .operands = ctc_operands(),
       .attributes = {blank_attribute(),
                      {"zero_infinity", AttributeType::kBool, "false",
                       "0 instead of infinity where no path gives the labels"}},
       .infer = infer_ctc,
       .flops = {20, Flops::Each::kSecond},
       .examples = {"ctc(i32[2,3], f32[2,8,11], u8[2], u8[2])"}},
      {.name = "ctc_grad",
       .doc = "Gradient of ctc; 0 for samples whose loss is infinite.",
       .formula = "dlog_probs[t, c] = -dy p(c at t | labels)",
       .operands = ctc_grad_operands(),
       .attributes = {blank_attribute()},
       .infer = infer_ctc_grad,
       .linear = {4},
       .flops = {40},
       .internal = true},
      {.name = "kl_div",
       .doc = "Kullback-Leibler divergence of a distribution from log-probabilities, element by "
              "element; its sum over the classes is that of a row.",
       .formula = "loss = target (log(target) - log_probs), 0 log(0) = 0; log_target: "
                  "exp(target) (target - log_probs)",
       .operands = {{"log_probs", "any shape"}, {"target", "probabilities of the same shape"}},
       .attributes = {{"log_target", AttributeType::kBool, "false",
                       "the target is log-probabilities, too"}}},
      {.name = "hinge",
       .doc = "Hinge loss of scores against labels -1 and 1, per element.",
       .formula = "loss = max(0, margin - labels scores)",
       .operands = {{"labels", "-1 or 1, any shape"}, {"scores", "same shape"}},
       .attributes = {margin_attribute("1")}},
      {.name = "huber",
       .doc = "Huber loss per element: smooth_l1 with beta = delta, times delta.",
       .formula = "loss = d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), d = prediction "
                  "- target",
       .operands = {{"prediction", "any shape"}, {"target", "same shape, or a number"}},
       .attributes = {number_above_0("delta", "1", "error above which the loss is linear")}},
      {.name = "focal",
       .doc = "Focal loss of sigmoid(logits) (Lin et al., 2017), per element.",
       .formula = "loss = a (1 - q)^gamma sigmoid_cross_entropy_with_logits(labels, logits), q = "
                  "p labels + (1 - p) (1 - labels), p = sigmoid(logits), a = alpha labels + (1 - "
                  "alpha) (1 - labels)",
       .operands = {{"labels", "0 or 1, any shape"}, {"logits", "same shape"}},
       .attributes = {number_attribute("alpha", "0.25", "weight of label 1; label 0 has 1 - alpha",
                                       0, 1),
                      number_attribute("gamma", "2",
                                       "how much less well classified elements count; 0: all alike",
                                       0)}},
      {.name = "cosine_embedding",
       .doc = "Loss of pairs of vectors that should be similar or not, by the cosine of their "
              "angle; one per pair.",
       .formula = "loss = 1 - c where the label is above 0, else max(0, c - margin), c = a b / "
                  "sqrt((a a + 1e-12) (b b + 1e-12))",
       .operands = {vectors("a"),
                    vectors("b"),
                    {"labels", "(...): 1 for similar pairs, -1 for others", Accepts::kNumber}},
       .attributes = {margin_attribute("0")}},
      {.name = "triplet_margin",
       .doc = "Loss of an anchor that should be closer to a positive than to a negative vector; "
              "one per triplet.",
       .formula = "loss = max(0, d(anchor, positive) - d(anchor, negative) + margin), d(x, y) = "
                  "|x - y + epsilon|_p",
       .operands = {vectors("anchor"), vectors("positive"), vectors("negative")},
       .attributes = {margin_attribute("1"),
                      integer_attribute("p", "2", "norm of the differences", 1, 2),
                      number_above_0("epsilon", "1e-6", "added to each difference"),
                      {"swap", AttributeType::kBool, "false",
                       "use the smaller of the distances of the negative from anchor and "
                       "positive"}}},
  };
}

}  // namespace flow::ops
