// The records of losses of classes.
#include "ops/cross_entropy/cross_entropy.h"

#include "ops/core/families.h"

namespace flow::ops {
namespace {

constexpr std::string_view kSparseLoss = "sparse_softmax_cross_entropy_with_logits";
constexpr std::string_view kSparseLossGrad = "sparse_softmax_cross_entropy_with_logits_grad";

constexpr std::string_view kClassNumbers =
    "for class indices use `sparse_softmax_cross_entropy_with_logits`, or encode them with `{op: "
    "one_hot, depth: C}`";

constexpr std::string_view kOneHotLabels =
    "convert one-hot labels with `{op: argmax}`, and class indices with `{op: cast, dtype: int32}`";

constexpr std::string_view kDenseLoss = "softmax_cross_entropy_with_logits";
constexpr std::string_view kDenseLossGrad = "softmax_cross_entropy_with_logits_grad";

/// Returns the number of classes, the last extent of operand 1, which limits the labels.
int64_t class_count(std::span<const Shape> operands, const Attributes&) {
  return operands[1][operands[1].rank() - 1];
}

Shape without_classes(const Shape& logits) { return logits.first(logits.rank() - 1); }

/// Returns the batch axis of the losses, each of which combines all classes.
int batch_beside_classes(const Operand& logits) {
  return batch_beside(logits.batch_axis, logits.shape.rank() - 1);
}

/// Returns a hint about the likely mistake if the labels do not fit their logits.
std::string_view hint_for_labels(const Shape& labels, const Shape& logits) {
  const Shape rows = without_classes(logits);
  if (labels == logits)
    return "convert one-hot labels with `{op: argmax}`, or pass them as floats to "
           "`softmax_cross_entropy_with_logits`";
  if (labels == replaced_axes(rows, rows.rank(), 0, {1}))
    return "remove the last axis of the labels with `{op: squeeze, axis: -1}`";
  // Logits of pixels in PyTorch's layout: (N, C, H, W) with labels (N, H, W).
  if (logits.rank() == 4 && labels == Shape{logits[0], logits[2], logits[3]})
    return "move the classes to the last axis of the logits with `{op: transpose, perm: [0, 2, 3, "
           "1]}`";
  if (labels.rank() == 1 && rows.rank() > 1 && labels[0] == rows[0])
    return "add `{op: flatten}` before the layer that makes the logits, for one row per example";
  return {};
}

/// Returns true if the logits (or probabilities) have a last axis of classes; otherwise reports
/// them.
bool have_classes(Call& call) {
  if (call.shape(1).rank() > 0) return true;
  call.bad_operand(1, Reason::kRankMismatch, "`logits` is a scalar; expected a class dimension");
  return false;
}

/// Returns true if there is one label (...) per row of logits (or probabilities) (..., C);
/// otherwise reports the labels.
bool labels_fit(Call& call) {
  if (!have_classes(call)) return false;
  const Shape &labels = call.shape(0), &full = call.shape(1);
  const Shape rows = without_classes(full);
  if (labels == rows) return true;
  call.bad_operand(
          0, Reason::kShapeMismatch,
          fmt::format("the labels are {} for logits {}; expected {}: one label per row of logits",
                      labels.str(), full.str(), rows.str()))
      .with_hint(std::string(hint_for_labels(labels, full)));
  return false;
}

/// Returns true if operand 2, if present, contains one weight per class; otherwise reports it.
bool class_weights_fit(Call& call) {
  if (call.operands() < 3) return true;
  const Shape &weights = call.shape(2), expected{classes_of(call)};
  if (weights == expected) return true;
  call.bad_operand(2, Reason::kShapeMismatch,
                   fmt::format("the weights are {} for {} classes; expected {}", weights.str(),
                               classes_of(call), expected.str()));
  return false;
}

/// Returns true if labels and logits (or probabilities) have the same shape (..., C); otherwise
/// reports the labels.
bool dense_labels_fit(Call& call) {
  if (!have_classes(call)) return false;
  const Shape &labels = call.shape(0), &logits = call.shape(1);
  if (labels == logits) return true;
  const bool numbers = labels == without_classes(logits);
  call.bad_operand(0, Reason::kShapeMismatch,
                   fmt::format("the labels are {} for logits {}; expected equal shapes",
                               labels.str(), logits.str()))
      .with_hint(numbers ? std::string(kClassNumbers) : "");
  return false;
}

/// Returns true if operand 2, the gradient of the losses, has one element per row; otherwise
/// reports it.
bool loss_gradient_fits(Call& call) {
  const Shape& dy = call.shape(2);
  if (dy == without_classes(call.shape(1))) return true;
  call.bad_operand(2, Reason::kShapeMismatch,
                   fmt::format("the gradient is {} {} for labels {}", name_of(call.dtype(2)),
                               dy.str(), call.shape(0).str()));
  return false;
}

int batch_of_losses(const Call& call) {
  return common_batch(call.operand(0).batch_axis, batch_beside_classes(call.operand(1)));
}

void infer_loss(Call& call) {
  if (!class_labels_fit(call)) return;
  const Operand& logits = call.operand(1);
  call.result(logits.dtype, call.shape(0), batch_of_losses(call));
  call.result(logits.dtype, logits.shape, batch_beside_classes(logits));
}

/// The shape function of the gradient, whose operand 2 is a gradient and not weights.
void infer_loss_grad(Call& call) {
  if (!labels_fit(call) || !loss_gradient_fits(call)) return;
  const Operand& prob = call.operand(1);
  call.result(prob.dtype, prob.shape,
              common_batch(batch_of_losses(call), call.operand(2).batch_axis));
}

int batch_of_dense_losses(const Call& call) {
  return common_batch(batch_beside_classes(call.operand(0)), batch_beside_classes(call.operand(1)));
}

void infer_dense_loss(Call& call) {
  if (!dense_labels_fit(call)) return;
  const Operand& logits = call.operand(1);
  call.result(logits.dtype, without_classes(logits.shape), batch_of_dense_losses(call));
  call.result(logits.dtype, logits.shape, batch_beside_classes(logits));
}

void infer_dense_loss_grad(Call& call) {
  if (!dense_labels_fit(call) || !loss_gradient_fits(call)) return;
  const Operand& prob = call.operand(1);
  call.result(prob.dtype, prob.shape,
              common_batch(batch_of_dense_losses(call), call.operand(2).batch_axis));
}

OperandSpec class_labels() {
  return {.name = "labels",
          .doc = "(...), each in [0, C)",
          .accepts = Accepts::kInteger,
          .instead = kOneHotLabels,
          .limit = class_count};
}

OperandSpec class_weights() {
  return {.name = "weights",
          .doc = "(C), factor on the losses of each class; default: 1",
          .optional = true,
          .layer_only = true};
}

/// Attributes of the layers; the primitive has none.
std::vector<AttributeSpec> label_attributes() {
  return {{"ignore_index", AttributeType::kInteger, "none",
           "label of rows to leave out: their loss and gradient are 0"},
          choice_attribute(
              "reduction", "none",
              "none: a loss for each row; mean: their sum divided by the weights of the labels "
              "that count; sum",
              {"none", "mean", "sum"})};
}

AttributeSpec label_smoothing() {
  return number_attribute("label_smoothing", "0",
                          "fraction of each label to spread over all classes", 0, 1);
}

std::vector<AttributeSpec> sparse_loss_attributes() {
  std::vector<AttributeSpec> attributes = label_attributes();
  attributes.push_back(label_smoothing());
  for (AttributeSpec& attribute : attributes) attribute.kind = Kind::kUnplanned;
  return attributes;
}

/// Removes all attributes from the primitive, because the layer implements them.
void drop_attributes(Call&, Attributes& attributes) { attributes = {}; }

}  // namespace

int64_t classes_of(const Call& call) { return call.shape(1)[call.shape(1).rank() - 1]; }

bool class_labels_fit(Call& call) { return labels_fit(call) && class_weights_fit(call); }

std::vector<OpSpec> cross_entropy() {
  return {
      {.name = kSparseLoss,
       .doc = "Cross entropy of softmax(logits) against class indices; one loss per row.",
       .formula = "loss = weights[label] (log(sum exp(logits)) - logits[label]); label_smoothing: "
                  "(1 - label_smoothing) loss + label_smoothing / C sum weights (log(sum "
                  "exp(logits)) - logits)",
       .operands = {class_labels(), {"logits", "(..., C)"}, class_weights()},
       .attributes = sparse_loss_attributes(),
       .results = {{"out"}, {.name = "prob", .optional = true}},
       .normalize = drop_attributes,
       .infer = infer_loss,
       .flops = {5, Flops::Each::kSecond},
       .examples = {"sparse_softmax_cross_entropy_with_logits(i32[5], f32[5,10])",
                    "sparse_softmax_cross_entropy_with_logits(i64[2,3], f32[2,3,4])",
                    "sparse_softmax_cross_entropy_with_logits(u8[5], f32[5,3])",
                    "sparse_softmax_cross_entropy_with_logits(i8[], f32[7])"}},
      {.name = "nll",
       .doc = "Negative log-likelihood of class indices, from log-probabilities; one loss per "
              "row.",
       .formula = "loss = -weights[label] log_probs[label]",
       .operands = {class_labels(), {"log_probs", "(..., C)"}, class_weights()},
       .attributes = label_attributes()},
      {.name = kDenseLoss,
       .doc = "Cross entropy of softmax(logits) against class probabilities; one loss per row. "
              "The labels can have any sum.",
       .formula = "loss = sum labels (log(sum exp(logits)) - logits)",
       .operands = {{.name = "labels", .doc = "(..., C)", .instead = kClassNumbers},
                    {"logits", "(..., C)"}},
       .results = {{"out"}, {.name = "prob", .optional = true}},
       .infer = infer_dense_loss,
       .flops = {7, Flops::Each::kSecond},
       .examples = {"softmax_cross_entropy_with_logits(f32[5,10], f32[5,10])",
                    "softmax_cross_entropy_with_logits(f32[2,3,4], f32[2,3,4])",
                    "softmax_cross_entropy_with_logits(f32[70], f32[70])"}},
      {.name = kDenseLossGrad,
       .doc = "Gradient of the loss with respect to the logits.",
       .formula = "dlogits = dy (sum(labels) prob - labels)",
       .operands = {{"labels", "(..., C)"}, {"prob", "softmax(logits)"}, {"dy", "(...)"}},
       .infer = infer_dense_loss_grad,
       .linear = {0, 2},
       .flops = {2},
       .internal = true},
      {.name = kSparseLossGrad,
       .doc = "Gradient of the loss with respect to the logits.",
       .formula = "dlogits = dy (prob - onehot(label))",
       .operands = {class_labels(), {"prob", "softmax(logits), (..., C)"}, {"dy", "(...)"}},
       .infer = infer_loss_grad,
       .linear = {2},
       .origin = Origin{.operand = 1,
                        .op = kSparseLoss,
                        .same_operand = true,
                        .expected = "the loss with these labels"},
       .flops = {2},
       .internal = true},
  };
}

}  // namespace flow::ops
