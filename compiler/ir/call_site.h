// Declares calls of ops, as messages and shape functions see them, and their attributes, which are
// read from text, completed with defaults, and checked.
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

/// The positions of the attributes in the job file, for messages.
struct AttributeSpans {
  std::vector<std::pair<std::string, Span>> spans;
  Span op;  // the span of the `op:` value
  std::vector<Span> operands;
  /// The position of the attribute, or that of `op:` if the attribute has its default value.
  Span of(std::string_view attribute) const;
  /// The position of operand i, or that of `op:` if operand i is not written in the file.
  Span of_operand(size_t i) const;
};

/// A call of an op as messages see it. Each message begins with the entry's name. A message at an
/// operand or attribute is followed by the chain of shapes of the operand (of operand 0 for
/// attributes).
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
  /// Operand i as the user wrote it; empty if the file does not contain it.
  std::string_view written(size_t i) const;

  Diag& bad_operand(size_t i, Diagnosis diagnosis, std::string message);
  Diag& bad_attribute(std::string_view attribute, Diagnosis diagnosis, std::string message);
  Diag& bad_op(Diagnosis diagnosis, std::string message);
  bool failed() const { return failed_; }
  /// Reports the refusal of a shape function.
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

/// Returns the properties of the job that all calls depend on.
ops::JobTypes types_of(const ir::Graph& graph);

/// Returns the call as the functions of ops/ see it. Borrows the shapes and attributes.
ops::Call typed_call(const ir::Graph& graph, std::span<const ir::ValueId> operands,
                     const ir::Attributes& attributes);
/// Returns the same call in one shard, where the operands have `shapes`. The rows are those of the
/// shard. Values without rows count as independent of the batch.
ops::Call call_of_shard(const ir::Graph& graph, std::span<const ir::ValueId> operands,
                        std::span<const Shape> shapes, const ir::Attributes& attributes);

/// Reads an attribute value from the text of a record. REQUIRES: `text` is a value of that type.
ir::Attribute attribute_from(ops::AttributeType type, std::string_view text);

/// Sets default values, and reports attributes that are missing, out of range or of the wrong type.
/// Returns false if it reported any. `name` is the name of the entry.
bool complete_attributes(const ops::OpSpec& op, std::string_view name, const AttributeSpans& spans,
                         Diags& diags, ir::Attributes& attributes);

}  // namespace flow
