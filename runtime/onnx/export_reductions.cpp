// Nodes that reduce: sums and extremes over axes, softmax, cumulative sums and products, and losses
// of rows.
#include <limits>

#include "runtime/onnx/step_export.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;

int64_t kept(const StepExport& step) { return step.attribute<bool>("keepdims") ? 1 : 0; }

/// Only a scalar has no axes, for which ONNX would take all.
void reduce(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  // Of these, only ReduceSum has its axes as an input in opset 17.
  if (step.type() == "ReduceSum")
    return step.result("ReduceSum", {step.in().name, step.vector(axes)},
                       {{"keepdims", kept(step)}});
  step.result(step.type(), step.names(), {{"axes", axes}, {"keepdims", kept(step)}});
}

/// A maximum or minimum of bools.
void reduce_bools(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  const std::string numbers = step.cast(step.in().name, DType::kBool, DType::kInt32);
  const std::string reduced =
      step.node(step.type(), {numbers}, {{"axes", axes}, {"keepdims", kept(step)}});
  step.result("Cast", {reduced}, {{"to", int64_t{data_type_of(DType::kBool)}}});
}

void softmax(StepExport& step) {
  step.result(step.type(), step.names(), {{"axis", step.attribute<int64_t>("axis")}});
}

void cumsum(StepExport& step) {
  const auto axis = static_cast<double>(step.attribute<int64_t>("axis"));
  step.result("CumSum", {step.in().name, step.number(axis, DType::kInt64)},
              {{"exclusive", int64_t{step.attribute<bool>("exclusive")}},
               {"reverse", int64_t{step.attribute<bool>("reverse")}}});
}

/// `value` with its elements `count` places along an axis further from where products begin, behind
/// ones.
std::string shifted(StepExport& step, const std::string& value, int64_t count) {
  const auto axis = step.attribute<int64_t>("axis");
  const auto rank = static_cast<size_t>(step.in().shape.rank());
  const bool reverse = step.attribute<bool>("reverse");
  Integers pads(2 * rank, 0);
  pads[static_cast<size_t>(axis) + (reverse ? rank : 0)] = count;
  const std::string padded =
      step.node("Pad", {value, step.vector(pads), step.number(1)}, {{"mode", "constant"}});
  const int64_t end = reverse ? std::numeric_limits<int64_t>::max() : -count;
  return step.node("Slice", {padded, step.vector({reverse ? count : 0}), step.vector({end}),
                             step.vector({axis})});
}

/// Opset 17 has no CumProd. Each factor doubles how many elements a product has (Hillis and Steele,
/// 1986), so that a few nodes are enough, and zeros stay exact.
void cumprod(StepExport& step) {
  const Value& x = step.in();
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  if (x.batch_axis == axis || x.batch_axis == ops::kBatchReduced) step.fix_batch();
  std::string product = x.name;
  if (step.attribute<bool>("exclusive")) product = shifted(step, product, 1);
  for (int64_t count = 1; count < x.shape[axis]; count *= 2)
    product = step.node("Mul", {product, shifted(step, product, count)});
  step.result("Identity", {product});
}

/// The second result of both losses.
void probabilities(StepExport& step) {
  if (step.is_read(1)) step.result("Softmax", {step.in(1).name}, {{"axis", int64_t{-1}}}, 1);
}

void sparse_cross_entropy(StepExport& step) {
  const Value &labels = step.in(0), &logits = step.in(1);
  if (labels.batch_axis != logits.batch_axis) step.fix_batch();
  const int last = logits.shape.rank() - 1;
  const std::string logs = step.node("LogSoftmax", {logits.name}, {{"axis", int64_t{-1}}});
  const std::string axis = step.vector({last});
  const std::string column =
      step.node("Unsqueeze", {step.cast(labels.name, labels.dtype, DType::kInt64), axis});
  const std::string picked = step.node("GatherElements", {logs, column}, {{"axis", int64_t{last}}});
  step.result("Neg", {step.node("Squeeze", {picked, axis})});
  probabilities(step);
}

void cross_entropy(StepExport& step) {
  const std::string &labels = step.in(0).name, &logits = step.in(1).name;
  const std::string logs = step.node("LogSoftmax", {logits}, {{"axis", int64_t{-1}}});
  const std::string sum = step.node(
      "ReduceSum", {step.node("Mul", {labels, logs}), step.vector({step.in(1).shape.rank() - 1})},
      {{"keepdims", int64_t{0}}});
  step.result("Neg", {sum});
  probabilities(step);
}

constexpr ExportRule kReductions[] = {
    {"reduce_sum", reduce, "ReduceSum", !kBroadcasts, kWidens},
    {"reduce_mean", reduce, "ReduceMean"},
    {"reduce_prod", reduce, "ReduceProd", !kBroadcasts, kWidens},
    {"reduce_max", reduce, "ReduceMax"},
    {"reduce_min", reduce, "ReduceMin"},
    {"reduce_any", reduce_bools, "ReduceMax"},
    {"reduce_all", reduce_bools, "ReduceMin"},
    {"logsumexp", reduce, "ReduceLogSumExp"},
    {"softmax", softmax, "Softmax"},
    {"log_softmax", softmax, "LogSoftmax"},
    {"cumsum", cumsum, "", !kBroadcasts, kWidens},
    {"cumprod", cumprod, "", !kBroadcasts, kWidens},
    {"sparse_softmax_cross_entropy_with_logits", sparse_cross_entropy},
    {"softmax_cross_entropy_with_logits", cross_entropy, "", kBroadcasts},
};

}  // namespace

std::span<const ExportRule> reduction_rules() { return kReductions; }

}  // namespace flow::onnx
