// A call of an op as messages see it, and as the op's shape function does.
#include "compiler/ir/call_site.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/shape_chain.h"

namespace flow {
namespace {

Diagnosis diagnosis_of(ops::Reason reason) {
  switch (reason) {
    case ops::Reason::kBadAttribute:
      return Diagnosis::kBadAttribute;
    case ops::Reason::kDTypeMismatch:
      return Diagnosis::kDTypeMismatch;
    case ops::Reason::kMissingAttribute:
      return Diagnosis::kMissingAttribute;
    case ops::Reason::kOperandCount:
      return Diagnosis::kOperandCount;
    case ops::Reason::kOutOfRange:
      return Diagnosis::kOutOfRange;
    case ops::Reason::kRankMismatch:
      return Diagnosis::kRankMismatch;
    case ops::Reason::kShapeMismatch:
      return Diagnosis::kShapeMismatch;
    case ops::Reason::kTensorTooLarge:
      return Diagnosis::kTensorTooLarge;
    case ops::Reason::kWindow:
      break;
  }
  return Diagnosis::kWindow;
}

/// Rows of the batch that the job's inputs carry, or 0 where none does.
int64_t batch_of(const ir::Graph& graph) {
  for (const ir::ValueId input : graph.inputs)
    if (const ir::Value& value = graph[input]; value.batch_axis >= 0)
      return value.shape[value.batch_axis];
  return 0;
}

}  // namespace

Span AttributeSpans::of(std::string_view attribute) const {
  const auto found = std::ranges::find(spans, attribute, &std::pair<std::string, Span>::first);
  return found == spans.end() ? op : found->second;
}

Span AttributeSpans::of_operand(size_t i) const {
  return i < operands.size() && operands[i].valid() ? operands[i] : op;
}

std::string_view CallSite::written(size_t i) const {
  const Span span = spans_.of_operand(i);
  return span == spans_.op ? std::string_view() : diags_.sources().text(span);
}

Diag& CallSite::report(Span span, Diagnosis diagnosis, std::string message, size_t chain_of) {
  failed_ = true;
  Diag& diag = diags_.error(diagnosis, span, fmt::format("{}: {}", name_, message));
  if (chain_of >= operands_.size()) return diag;
  const auto show_chain = [&](size_t i) {
    const std::string chain = shape_chain(graph_, diags_.sources(), operands_[i]);
    if (!chain.empty()) diag.with_note(chain);
  };
  // What does not agree is mostly the first operand and another.
  const bool mismatch = diagnosis == Diagnosis::kShapeMismatch;
  if (mismatch && operands_[chain_of] != operands_[0]) show_chain(0);
  show_chain(chain_of);
  if (mismatch && chain_of == 0 && operands_.size() == 2 && operands_[1] != operands_[0])
    show_chain(1);
  return diag;
}

Diag& CallSite::bad_operand(size_t i, Diagnosis diagnosis, std::string message) {
  return report(spans_.of_operand(i), diagnosis, std::move(message), i);
}

Diag& CallSite::bad_attribute(std::string_view attribute, Diagnosis diagnosis,
                              std::string message) {
  return report(spans_.of(attribute), diagnosis, std::move(message), 0);
}

Diag& CallSite::bad_op(Diagnosis diagnosis, std::string message) {
  return report(spans_.op, diagnosis, std::move(message), operands_.size());
}

void CallSite::report(const ops::Refusal& refusal) {
  const Diagnosis diagnosis = diagnosis_of(refusal.reason);
  Diag& diag = refusal.operand ? bad_operand(*refusal.operand, diagnosis, refusal.text)
               : refusal.attribute.empty()
                   ? bad_op(diagnosis, refusal.text)
                   : bad_attribute(refusal.attribute, diagnosis, refusal.text);
  for (const std::string& hint : refusal.hints) diag.with_hint(hint);
}

ops::JobTypes types_of(const ir::Graph& graph) {
  return {.compute = graph.compute_dtype, .batch = batch_of(graph), .shards = graph.shards};
}

ops::Call call_of_shard(const ir::Graph& graph, std::span<const ir::ValueId> operands,
                        std::span<const Shape> shapes, const ir::Attributes& attributes) {
  std::vector<ops::Operand> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::Value& value = graph[operands[i]];
    types.push_back({value.dtype, shapes[i], std::max(value.batch_axis, ir::kNoBatch)});
  }
  ops::JobTypes job = types_of(graph);
  if (!graph.cut) job.batch /= graph.shards;
  return ops::Call(std::move(types), attributes, job);
}

ops::Call typed_call(const ir::Graph& graph, std::span<const ir::ValueId> operands,
                     const ir::Attributes& attributes) {
  std::vector<ops::Operand> types;
  for (const ir::ValueId operand : operands) {
    const ir::Value& value = graph[operand];
    types.push_back({value.dtype, value.shape, value.batch_axis});
  }
  return ops::Call(std::move(types), attributes, types_of(graph));
}

}  // namespace flow
