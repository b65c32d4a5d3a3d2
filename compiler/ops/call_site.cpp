// What rules are given: the call they judge, and the builder that they add to.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/ops/initializers.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_chain.h"

namespace flow {
namespace {

/// What the attribute beside `initializer` says: "kernel_regularizer" beside "kernel_initializer".
void set_regularizer(const ir::Attributes& attributes, std::string_view initializer,
                     ir::Variable& variable) {
  constexpr std::string_view kInitializer = "initializer";
  const std::string name =
      std::string(initializer.substr(0, initializer.size() - kInitializer.size())) + "regularizer";
  const auto number = [&](const char* part) {
    const ir::Attribute* value = attributes.find(name + part);
    return value ? std::get<double>(*value) : 0;
  };
  variable.l1 = number(".l1");
  variable.l2 = number(".l2");
}

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

}  // namespace

Span AttributeSpans::of(std::string_view attribute) const {
  const auto found = std::ranges::find(spans, attribute, &std::pair<std::string, Span>::first);
  return found == spans.end() ? op : found->second;
}

Span AttributeSpans::of_operand(size_t i) const {
  return i < operands.size() && operands[i].valid() ? operands[i] : op;
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

bool CallSite::same_dtype() {
  const auto is_wide = [](DType dtype) {
    return dtype == DType::kFloat32 || dtype == DType::kFloat64;
  };
  const DType a = operand(0).dtype, b = operand(1).dtype;
  if (a == b) return true;
  const bool first = is_float(b) && !is_float(a);  // no gradient passes a cast to integers
  bad_operand(first ? 0 : 1, Diagnosis::kDTypeMismatch,
              fmt::format("the operands are {} and {}; expected one dtype", name_of(a), name_of(b)))
      .with_hint(
          fmt::format("convert with `{{op: cast, dtype: {}}}`{}", name_of(first ? b : a),
                      is_wide(a) && is_wide(b) ? ", or set `precision: float64` on the job" : ""));
  return false;
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

void Inference::run(const ops::OpSpec& spec, bool normalised) {
  std::vector<ops::Operand> types;
  for (size_t i = 0; i < operands(); ++i)
    types.push_back({operand(i).dtype, operand(i).shape, operand(i).rows});
  const ops::JobTypes job{.compute = number(), .batch = batch()};
  ops::Call call(std::move(types), attributes_, job);
  if (!normalised && spec.normalise) spec.normalise(call, attributes_);
  if (!call.failed()) spec.infer(call);
  for (const ops::Refusal& refusal : call.refusals()) report(refusal);
  results_ = call.results();
}

void infer(const OpDef& op, Inference& inference, bool normalised) {
  if (op.infer)
    op.infer(inference);
  else
    inference.run(*op.spec, normalised);
}

void Inference::replace(std::string_view name, std::string_view by, ir::Attribute value) {
  ir::Attributes others;
  for (const auto& [other, kept] : attributes_)
    if (other != name) others.set(other, kept);
  others.set(by, std::move(value));
  attributes_ = std::move(others);
}

int64_t Inference::batch() const {
  for (const ir::ValueId input : graph().inputs)
    if (const ir::Value& value = graph()[input]; value.rows >= 0) return value.shape[value.rows];
  return 0;
}

void Inference::result(DType dtype, Shape shape, int rows) {
  if (shape.rank() > plan::kMaxRank)
    bad_op(Diagnosis::kRankMismatch,
           fmt::format("the result has {} dimensions; at most {} are supported", shape.rank(),
                       plan::kMaxRank));
  else if (!shape.checked_elements())
    bad_op(Diagnosis::kTensorTooLarge,
           fmt::format("the result is {}; its size in bytes overflows", shape.str()));
  results_.push_back({dtype, std::move(shape), rows});
}

void infer_like_operand(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  inference.result(x.dtype, x.shape, x.rows);
}

const ir::Value& GradientContext::value_of(ir::ValueId id) const { return builder.graph()[id]; }

ir::ValueId GradientContext::add(std::string_view op, size_t i, std::vector<ir::ValueId> operands,
                                 ir::Attributes attributes, std::string_view part) {
  std::string name = part.empty() ? names[i] : fmt::format("{}/{}", names[i], part);
  return builder.add(op, std::move(name), std::move(operands), std::move(attributes), node.span);
}

const ir::Value& LayerContext::operand(size_t i) const { return builder.graph()[operands[i]]; }

DType LayerContext::number() const { return builder.graph().number; }

CallSite LayerContext::site() const {
  return CallSite(builder.graph(), name, operands, spans, builder.diags());
}

ops::Call LayerContext::call() const {
  std::vector<ops::Operand> types;
  for (size_t i = 0; i < operands.size(); ++i)
    types.push_back({operand(i).dtype, operand(i).shape, operand(i).rows});
  return ops::Call(std::move(types), attributes, {.compute = number()});
}

bool LayerContext::report(const ops::Call& call) const {
  CallSite at = site();
  for (const ops::Refusal& refusal : call.refusals()) at.report(refusal);
  return call.failed();
}

ir::ValueId LayerContext::add(std::string_view op, std::string_view part,
                              std::vector<ir::ValueId> op_operands,
                              ir::Attributes op_attributes) const {
  const OpDef* def = find_op(op);
  FLOW_CHECK(def && def->is_primitive(), "{}", op);
  AttributeSpans at_op;
  at_op.op = spans.op;
  std::string full = part.empty() ? name : fmt::format("{}/{}", name, part);
  return builder.add(*def, std::move(full), std::move(op_operands), std::move(op_attributes), at_op)
      .front();
}

ir::ValueId LayerContext::activate(ir::ValueId value) const {
  const std::string& activation = attributes.get<std::string>("activation");
  if (activation == "none" || !value.valid()) return value;
  return add(activation, activation, {value}, {});
}

ir::ValueId LayerContext::add_variable(std::string_view part, std::string_view attribute,
                                       DType dtype, Shape shape, Fans fans) const {
  if (!variables.empty() && variables != name) return shared_variable(part, dtype, shape);
  const auto given =
      std::ranges::find(initializers, attribute, &std::pair<std::string, plan::Initializer>::first);
  const plan::Initializer asked = given == initializers.end()
                                      ? default_initializer(attributes.get<std::string>(attribute))
                                      : given->second;
  const ir::ValueId variable =
      add_variable(part, resolve_initializer(asked, fans), dtype, std::move(shape), trainable);
  if (variable.valid()) set_regularizer(attributes, attribute, builder.graph().variables.back());
  return variable;
}

ir::ValueId LayerContext::add_variable(std::string_view part, plan::Initializer initializer,
                                       DType dtype, Shape shape, bool trained) const {
  if (!variables.empty() && variables != name) return shared_variable(part, dtype, shape);
  std::string full = part.empty() ? name : fmt::format("{}/{}", name, part);
  return builder.add_variable(std::move(full), dtype, std::move(shape), std::move(initializer),
                              trained, false, spans.op);
}

ir::ValueId LayerContext::shared_variable(std::string_view part, DType dtype,
                                          const Shape& shape) const {
  const ir::Graph& graph = builder.graph();
  const std::string full = part.empty() ? variables : fmt::format("{}/{}", variables, part);
  const ir::ValueId found = graph.find(full);
  Diags& diags = builder.diags();
  if (!found.valid() || graph[found].role != plan::Role::kVariable) {
    diags.error(Diagnosis::kSharedVariable, shared_at,
                fmt::format("{}: unknown variable `{}`", name, full));
    return {};
  }
  const ir::Value& value = graph[found];
  if (value.shape == shape && value.dtype == dtype) return found;
  diags
      .error(Diagnosis::kSharedVariable, shared_at,
             fmt::format("{}: the variable `{}` is {} {}; expected {} {}", name, value.name,
                         name_of(value.dtype), value.shape.str(), name_of(dtype), shape.str()))
      .label(value.span, "created here");
  return {};
}

}  // namespace flow
