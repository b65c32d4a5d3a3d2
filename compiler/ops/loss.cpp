// Losses.
#include <fmt/format.h>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

using ir::kMixedRows;
using ir::kNoRows;

constexpr std::string_view kLoss = "sparse_softmax_cross_entropy_with_logits";
constexpr std::string_view kCrossEntropyGrad = "sparse_softmax_cross_entropy_with_logits_grad";

constexpr std::string_view kClassNumbers =
    "for class indices use `sparse_softmax_cross_entropy_with_logits`, or encode them with `{op: "
    "one_hot, depth: C}`";

constexpr std::string_view kDenseLoss = "softmax_cross_entropy_with_logits";
constexpr std::string_view kDenseGrad = "softmax_cross_entropy_with_logits_grad";

Shape without_classes(const Shape& logits) { return logits.first(logits.rank() - 1); }

/// Each loss reads all classes.
int rows_beside_classes(const ir::Value& logits) {
  return rows_beside(logits.rows, logits.shape.rank() - 1);
}

/// [4] -> [4, 1]
Shape with_one(const Shape& shape) {
  std::vector<int64_t> extents = shape.extents();
  extents.push_back(1);
  return Shape(std::move(extents));
}

/// What mistake labels that do not fit their logits may come from.
std::string_view hint_for_labels(const Shape& labels, const Shape& logits) {
  const Shape rows = without_classes(logits);
  if (labels == logits)
    return "convert one-hot labels with `{op: argmax}`, or pass them as floats to "
           "`softmax_cross_entropy_with_logits`";
  if (labels == with_one(rows))
    return "remove the last axis of the labels with `{op: squeeze, axis: -1}`";
  // Logits of pixels as PyTorch has them: [N, C, H, W] beside [N, H, W].
  if (logits.rank() == 4 && labels == Shape{logits[0], logits[2], logits[3]})
    return "move the classes to the last axis of the logits with `{op: transpose, perm: [0, 2, 3, "
           "1]}`";
  if (labels.rank() == 1 && rows.rank() > 1 && labels[0] == rows[0])
    return "add `{op: flatten}` before the layer that makes the logits, for one row per example";
  return {};
}

/// Labels [...] beside logits (or probabilities) [..., C].
bool labels_fit(Inference& inference) {
  const Shape& labels = inference.shape(0);
  const Shape& full = inference.shape(1);
  if (full.rank() < 1) {
    inference.bad_operand(1, Diagnosis::kRankMismatch,
                          "`logits` is a scalar; expected a class dimension");
    return false;
  }
  const Shape rows = without_classes(full);
  if (labels == rows) return true;
  inference
      .bad_operand(
          0, Diagnosis::kShapeMismatch,
          fmt::format("the labels are {} for logits {}; expected {}: one label per row of logits",
                      labels.str(), full.str(), rows.str()))
      .with_hint(std::string(hint_for_labels(labels, full)));
  return false;
}

int rows_of_losses(const Inference& inference) {
  return common_rows(inference.operand(0).rows, rows_beside_classes(inference.operand(1)));
}

void infer_loss(Inference& inference) {
  if (!labels_fit(inference)) return;
  const ir::Value& logits = inference.operand(1);
  inference.result(logits.dtype, inference.shape(0), rows_of_losses(inference));
  inference.result(logits.dtype, logits.shape, rows_beside_classes(logits));
}

void infer_loss_grad(Inference& inference) {
  if (!labels_fit(inference)) return;
  const ir::Value& prob = inference.operand(1);
  const ir::Value& dy = inference.operand(2);
  if (dy.shape != inference.shape(0) || dy.dtype != prob.dtype) {
    inference.bad_operand(2, Diagnosis::kShapeMismatch,
                          fmt::format("the gradient is {} {} for labels {}", name_of(dy.dtype),
                                      dy.shape.str(), inference.shape(0).str()));
    return;
  }
  int rows = rows_of_losses(inference);
  if (rows == kNoRows || dy.rows == kMixedRows) rows = dy.rows;
  inference.result(prob.dtype, prob.shape, rows);
}

/// Labels and logits [..., C].
void infer_dense_loss(Inference& inference) {
  const ir::Value& logits = inference.operand(1);
  if (logits.shape.rank() < 1) {
    inference.bad_operand(1, Diagnosis::kRankMismatch,
                          "`logits` is a scalar; expected a class dimension");
    return;
  }
  if (inference.shape(0) != logits.shape) {
    const bool numbers = inference.shape(0) == without_classes(logits.shape);
    inference
        .bad_operand(0, Diagnosis::kShapeMismatch,
                     fmt::format("the labels are {} for logits {}; expected equal shapes",
                                 inference.shape(0).str(), logits.shape.str()))
        .with_hint(numbers ? std::string(kClassNumbers) : "");
    return;
  }
  const int of_logits = rows_beside_classes(logits);
  inference.result(logits.dtype, without_classes(logits.shape),
                   common_rows(rows_beside_classes(inference.operand(0)), of_logits));
  inference.result(logits.dtype, logits.shape, of_logits);
}

void infer_dense_grad(Inference& inference) {
  const ir::Value& prob = inference.operand(1);
  inference.result(prob.dtype, prob.shape, prob.rows);
}

/// dlabels = -dy log(prob), dlogits = dy (sum(labels) prob - labels)
std::vector<ir::ValueId> dense_gradient(GradientContext& context) {
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0]) {
    const Shape column = with_one(context.value_of(context.gradient()).shape);
    const ir::ValueId dy =
        context.add("reshape", 0, {context.gradient()}, {{"shape", column.extents()}}, "reshape");
    const ir::ValueId log =
        context.add("log_softmax", 0, {context.operand(1)}, {{"axis", int64_t{-1}}}, "log_softmax");
    const ir::ValueId product = context.add("multiply", 0, {log, dy}, {}, "multiply");
    gradients[0] = context.add("negative", 0, {product}, {});
  }
  if (context.wanted[1])
    gradients[1] =
        context.add(kDenseGrad, 1, {context.operand(0), context.result(1), context.gradient()}, {});
  return gradients;
}

std::vector<ir::ValueId> loss_gradient(GradientContext& context) {
  return {ir::ValueId(),
          context.add(kCrossEntropyGrad, 1,
                      {context.operand(0), context.result(1), context.gradient()}, {})};
}

}  // namespace

std::span<const OpDef> loss() {
  static const OpDef kOps[] = {
      {
          .name = kLoss,
          .doc = "Cross entropy of softmax(logits) against class indices; one loss per row.",
          .formula = "loss = log(sum exp(logits)) - logits[label]",
          .operands = {{"labels", "(...), each in [0, C)", Accepts::kInteger},
                       {"logits", "(..., C)"}},
          .results = {"out", "prob"},
          .infer = infer_loss,
          .gradient = loss_gradient,
          .examples = {"sparse_softmax_cross_entropy_with_logits(i32[5], f32[5,10])",
                       "sparse_softmax_cross_entropy_with_logits(i64[2,3], f32[2,3,4])",
                       "sparse_softmax_cross_entropy_with_logits(u8[5], f32[5,3])",
                       "sparse_softmax_cross_entropy_with_logits(i8[], f32[7])"},
      },
      {
          .name = kDenseLoss,
          .doc = "Cross entropy of softmax(logits) against class probabilities; one loss per row. "
                 "The labels can have any sum.",
          .formula = "loss = sum labels (log(sum exp(logits)) - logits)",
          .operands = {{.name = "labels", .doc = "(..., C)", .instead = kClassNumbers},
                       {"logits", "(..., C)"}},
          .results = {"out", "prob"},
          .infer = infer_dense_loss,
          .gradient = dense_gradient,
          .examples = {"softmax_cross_entropy_with_logits(f32[5,10], f32[5,10])",
                       "softmax_cross_entropy_with_logits(f32[2,3,4], f32[2,3,4])",
                       "softmax_cross_entropy_with_logits(f32[70], f32[70])"},
      },
      {
          .name = kDenseGrad,
          .doc = "Gradient of the loss with respect to the logits.",
          .formula = "dlogits = dy (sum(labels) prob - labels)",
          .operands = {{"labels", "(..., C)"}, {"prob", "softmax(logits)"}, {"dy", "(...)"}},
          .infer = infer_dense_grad,
          .internal = true,
      },
      {
          .name = kCrossEntropyGrad,
          .doc = "Gradient of the loss with respect to the logits.",
          .formula = "dlogits = dy (prob - onehot(label))",
          .operands = {{"labels", "(...), each in [0, C)", Accepts::kInteger},
                       {"prob", "softmax(logits), (..., C)"},
                       {"dy", "(...)"}},
          .infer = infer_loss_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
