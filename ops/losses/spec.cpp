// Losses that are made of other ops: of two tensors element by element, or of rows of vectors.
#include "ops/losses/losses.h"

#include <fmt/format.h>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

AttributeSpec number_above_0(std::string_view name, std::string_view fallback,
                             std::string_view doc) {
  return {
      .name = name, .type = AttributeType::kNumber, .fallback = fallback, .doc = doc, .min = 1e-30};
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

std::span<const OpSpec> losses() {
  static const OpSpec kOps[] = {
      {
          .name = "kl_div",
          .doc = "Kullback-Leibler divergence of a distribution from log-probabilities, element by "
                 "element; its sum over the classes is that of a row.",
          .formula = "loss = target (log(target) - log_probs), 0 log(0) = 0; log_target: "
                     "exp(target) (target - log_probs)",
          .operands = {{"log_probs", "any shape"}, {"target", "probabilities of the same shape"}},
          .attributes = {{"log_target", AttributeType::kBool, "false",
                          "the target is log-probabilities, too"}},
      },
      {
          .name = "hinge",
          .doc = "Hinge loss of scores against labels -1 and 1, per element.",
          .formula = "loss = max(0, margin - labels scores)",
          .operands = {{"labels", "-1 or 1, any shape"}, {"scores", "same shape"}},
          .attributes = {margin_attribute("1")},
      },
      {
          .name = "huber",
          .doc = "Huber loss per element: smooth_l1 with beta = delta, times delta.",
          .formula =
              "loss = d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), d = prediction "
              "- target",
          .operands = {{"prediction", "any shape"}, {"target", "same shape, or a number"}},
          .attributes = {number_above_0("delta", "1", "error above which the loss is linear")},
      },
      {
          .name = "focal",
          .doc = "Focal loss of sigmoid(logits) (Lin et al., 2017), per element.",
          .formula =
              "loss = a (1 - q)^gamma sigmoid_cross_entropy_with_logits(labels, logits), q = "
              "p labels + (1 - p) (1 - labels), p = sigmoid(logits), a = alpha labels + (1 - "
              "alpha) (1 - labels)",
          .operands = {{"labels", "0 or 1, any shape"}, {"logits", "same shape"}},
          .attributes = {{.name = "alpha",
                          .type = AttributeType::kNumber,
                          .fallback = "0.25",
                          .doc = "weight of label 1; label 0 has 1 - alpha",
                          .min = 0,
                          .max = 1},
                         {.name = "gamma",
                          .type = AttributeType::kNumber,
                          .fallback = "2",
                          .doc = "how much less well classified elements count; 0: all alike",
                          .min = 0}},
      },
      {
          .name = "cosine_embedding",
          .doc = "Loss of pairs of vectors that should be similar or not, by the cosine of their "
                 "angle; one per pair.",
          .formula = "loss = 1 - c where the label is above 0, else max(0, c - margin), c = a b / "
                     "sqrt((a a + 1e-12) (b b + 1e-12))",
          .operands = {vectors("a"),
                       vectors("b"),
                       {"labels", "(...): 1 for similar pairs, -1 for others", Accepts::kNumber}},
          .attributes = {margin_attribute("0")},
      },
      {
          .name = "triplet_margin",
          .doc = "Loss of an anchor that should be closer to a positive than to a negative vector; "
                 "one per triplet.",
          .formula = "loss = max(0, d(anchor, positive) - d(anchor, negative) + margin), d(x, y) = "
                     "|x - y + epsilon|_p",
          .operands = {vectors("anchor"), vectors("positive"), vectors("negative")},
          .attributes = {margin_attribute("1"),
                         {.name = "p",
                          .type = AttributeType::kInteger,
                          .fallback = "2",
                          .doc = "norm of the differences",
                          .min = 1,
                          .max = 2},
                         number_above_0("epsilon", "1e-6", "added to each difference"),
                         {"swap", AttributeType::kBool, "false",
                          "use the smaller of the distances of the negative from anchor and "
                          "positive"}},
      },
  };
  return kOps;
}

}  // namespace flow::ops
