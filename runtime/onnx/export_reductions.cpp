// Nodes that reduce: sums and extremes over axes, softmax, cumulative sums, and losses of rows.
#include "runtime/onnx/step_export.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;

/// The dtype that an operator without integers of 8 bits computes a value of `dtype` in; wrapped
/// around, sums and products are the same.
DType summed_dtype(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kUInt8 ? DType::kInt32 : dtype;
}

/// Writes the result: `type`, of operand 0 as `wide`.
void result_in(StepExport& step, DType wide, std::string_view type,
               const std::vector<std::string>& more, const NodeAttributes& attributes) {
  const DType dtype = step.in().dtype;
  std::vector<std::string> inputs = {step.cast(step.in().name, dtype, wide)};
  inputs.insert(inputs.end(), more.begin(), more.end());
  if (wide == dtype) return step.result(type, inputs, attributes);
  step.result("Cast", {step.node(type, inputs, attributes)},
              {{"to", int64_t{data_type_of(dtype)}}});
}

int64_t kept(const StepExport& step) { return step.attribute<bool>("keepdims") ? 1 : 0; }

/// Reduces in dtype `wide`. Only a scalar has no axes, for which ONNX would take all.
void reduce_in(StepExport& step, DType wide) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  // Of these, only ReduceSum has its axes as an input in opset 17.
  if (step.type() == "ReduceSum")
    return result_in(step, wide, step.type(), {step.vector(axes)}, {{"keepdims", kept(step)}});
  result_in(step, wide, step.type(), {}, {{"axes", axes}, {"keepdims", kept(step)}});
}

void reduce(StepExport& step) { reduce_in(step, summed_dtype(step.in().dtype)); }

void reduce_extreme(StepExport& step) { reduce_in(step, step.in().dtype); }

/// A maximum or minimum of bools.
void reduce_bools(StepExport& step) { reduce_in(step, DType::kInt32); }

void softmax(StepExport& step) {
  step.result(step.type(), step.names(), {{"axis", step.attribute<int64_t>("axis")}});
}

void cumsum(StepExport& step) {
  const auto axis = static_cast<double>(step.attribute<int64_t>("axis"));
  result_in(step, summed_dtype(step.in().dtype), "CumSum", {step.number(axis, DType::kInt64)},
            {{"exclusive", int64_t{step.attribute<bool>("exclusive")}},
             {"reverse", int64_t{step.attribute<bool>("reverse")}}});
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
    {"reduce_sum", reduce, "ReduceSum"},
    {"reduce_mean", reduce, "ReduceMean"},
    {"reduce_prod", reduce, "ReduceProd"},
    {"reduce_max", reduce_extreme, "ReduceMax"},
    {"reduce_min", reduce_extreme, "ReduceMin"},
    {"reduce_any", reduce_bools, "ReduceMax"},
    {"reduce_all", reduce_bools, "ReduceMin"},
    {"logsumexp", reduce, "ReduceLogSumExp"},
    {"softmax", softmax, "Softmax"},
    {"log_softmax", softmax, "LogSoftmax"},
    {"cumsum", cumsum},
    {"sparse_softmax_cross_entropy_with_logits", sparse_cross_entropy},
    {"softmax_cross_entropy_with_logits", cross_entropy, "", true},
};

}  // namespace

std::span<const ExportRule> reduction_rules() { return kReductions; }

}  // namespace flow::onnx
