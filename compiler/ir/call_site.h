// A call of an op as messages see it, and as the op's shape function does, and its attributes: read
// from text, defaulted, checked.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/ir/graph.h"
#include "ops/core/call.h"
#include "ops/core/spec.h"

namespace flow {

/// Attributes as the user wrote them with their places, for messages.
struct AttributeSpans {
  std::vector<std::pair<std::string, Span>> spans;
  Span op;  // of the `op:` value
  std::vector<Span> operands;
  /// Where the attribute stands, or `op:` where it is defaulted.
  Span of(std::string_view attribute) const;
  /// Where operand i stands, or `op:`.
  Span of_operand(size_t i) const;
};

/// A call of an op as messages see it. They are prefixed with the entry's name; those at operands
/// and attributes are followed by the chain of shapes of the operand (operand 0 for attributes).
class CallSite {
 public:
  CallSite(const ir::Graph& graph, std::string_view name, std::span<const ir::ValueId> operands,
           const AttributeSpans& spans, Diags& diags)
      : graph_(graph), name_(name), operands_(operands), spans_(spans), diags_(diags) {}

  std::string_view name() const { return name_; }
  size_t operands() const { return operands_.size(); }
  ir::ValueId id(size_t i) const { return operands_[i]; }
  const ir::Value& operand(size_t i) const { return graph_[id(i)]; }
  const Shape& shape(size_t i) const { return operand(i).shape; }
  /// Operand i as the user wrote it; empty where nobody did.
  std::string_view written(size_t i) const;

  Diag& bad_operand(size_t i, Diagnosis diagnosis, std::string message);
  Diag& bad_attribute(std::string_view attribute, Diagnosis diagnosis, std::string message);
  Diag& bad_op(Diagnosis diagnosis, std::string message);
  bool failed() const { return failed_; }
  /// Reports a shape function's refusal.
  void report(const ops::Refusal& refusal);

 private:
  Diag& report(Span span, Diagnosis diagnosis, std::string message, size_t chain_of);

  const ir::Graph& graph_;
  std::string_view name_;
  std::span<const ir::ValueId> operands_;
  const AttributeSpans& spans_;
  Diags& diags_;
  bool failed_ = false;
};

/// What the job says of all calls.
ops::JobTypes types_of(const ir::Graph& graph);

/// The call as functions of ops/ see it. Borrows shapes and attributes.
ops::Call typed_call(const ir::Graph& graph, std::span<const ir::ValueId> operands,
                     const ir::Attributes& attributes);
/// The same of one shard, whose operands have `shapes`: rows are those of the shard, and all else
/// is the same in each of its rows.
ops::Call call_of_shard(const ir::Graph& graph, std::span<const ir::ValueId> operands,
                        std::span<const Shape> shapes, const ir::Attributes& attributes);

/// A value as a record writes it. REQUIRES: `text` is one of that type.
ir::Attribute attribute_from(ops::AttributeType type, std::string_view text);

/// Fills in what is defaulted, and reports what is missing, of another type or outside its range;
/// false then. `name` is the entry's.
bool complete_attributes(const ops::OpSpec& op, std::string_view name, const AttributeSpans& spans,
                         Diags& diags, ir::Attributes& attributes);

}  // namespace flow
