// Implements the contexts of rules, whose ops are named after their entry, and collects the rules
// of all op families.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/ir/builder.h"
#include "compiler/ir/initializers.h"
#include "compiler/ir/rules.h"
#include "ops/core/axes.h"
#include "runtime/base/error.h"

namespace flow {
namespace {

/// Sets the regularizer from the attribute that corresponds to `initializer`: "kernel_regularizer"
/// for "kernel_initializer".
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

}  // namespace

ir::Attributes picked(const ir::Attributes& attributes,
                      std::initializer_list<std::string_view> names) {
  ir::Attributes found;
  for (const std::string_view name : names) found.set(name, *attributes.find(name));
  return found;
}

ir::Value GradientContext::value_of(ir::ValueId id) const {
  ir::Value value = builder.graph()[id];
  if (node.per_shard) value.shape = builder.graph().shape_of_shard(id);
  return value;
}

ir::ValueId GradientContext::add(std::string_view op, size_t i, std::vector<ir::ValueId> operands,
                                 ir::Attributes op_attributes, std::string_view part) {
  std::string name = part.empty() ? names[i] : fmt::format("{}/{}", names[i], part);
  return builder.add(op, std::move(name), std::move(operands), std::move(op_attributes), node.span);
}

std::vector<ir::ValueId> GradientContext::add_all(std::string_view op,
                                                  std::vector<ir::ValueId> operands,
                                                  ir::Attributes op_attributes) {
  AttributeSpans spans;
  spans.op = node.span;
  return builder.add(*ops::find_spec(op), names[0], std::move(operands), std::move(op_attributes),
                     spans);
}

ir::ValueId GradientContext::reshape(size_t i, ir::ValueId value, std::vector<int64_t> shape,
                                     std::string_view part) {
  return add("reshape", i, {value}, {{"shape", std::move(shape)}}, part);
}

ir::ValueId GradientContext::fill(size_t i, double value, const Shape& shape, DType dtype,
                                  std::string_view part) {
  return add("fill", i, {}, {{"value", value}, {"shape", shape.extents()}, {"dtype", dtype}}, part);
}

ir::ValueId GradientContext::add_picked(ir::ValueId picked, ir::ValueId rows, int64_t axis) {
  if (wants_rows && axis == 0) {
    indices = picked;
    return rows;
  }
  const int64_t extent = value_of(operand(0)).shape[static_cast<int>(axis)];
  return add("gather_grad", 0, {picked, rows}, {{"axis", axis}, {"extent", extent}});
}

const ir::Value& LayerContext::operand(size_t i) const { return builder.graph()[operands[i]]; }

DType LayerContext::compute_dtype() const { return builder.graph().compute_dtype; }

const ir::Graph& LayerContext::graph() const { return builder.graph(); }

CallSite LayerContext::site() const {
  return CallSite(builder.graph(), name, operands, spans, builder.diags());
}

bool LayerContext::report(const ops::Call& call) const {
  CallSite at = site();
  for (const ops::Refusal& refusal : call.refusals()) at.report(refusal);
  return call.failed();
}

ir::ValueId LayerContext::add(std::string_view op, std::string_view part,
                              std::vector<ir::ValueId> op_operands,
                              ir::Attributes op_attributes) const {
  const ops::OpSpec* spec = ops::find_spec(op);
  FLOW_CHECK(spec && spec->infer, "{}", op);
  AttributeSpans at_op;
  at_op.op = spans.op;
  std::string full = part.empty() ? name : fmt::format("{}/{}", name, part);
  return builder
      .add(*spec, std::move(full), std::move(op_operands), std::move(op_attributes), at_op)
      .front();
}

std::optional<int> LayerContext::axis() const {
  ops::Call layer = call();
  const auto found = ops::axis_in_range(layer, attributes.get<int64_t>("axis"), operand(0).shape);
  report(layer);
  return found;
}

ir::ValueId LayerContext::result_beside(ir::ValueId first, size_t i) const {
  return first.valid() ? graph().producer_of(first)->results[i] : first;
}

ir::ValueId LayerContext::reshape(std::string_view part, ir::ValueId value,
                                  std::vector<int64_t> shape) const {
  return add("reshape", part, {value}, {{"shape", std::move(shape)}});
}

ir::ValueId LayerContext::fill(std::string_view part, double value, const Shape& shape,
                               DType dtype) const {
  return add("fill", part, {}, {{"value", value}, {"shape", shape.extents()}, {"dtype", dtype}});
}

ir::ValueId LayerContext::activate(ir::ValueId value) const {
  const std::string& activation = attributes.get<std::string>("activation");
  if (activation == "none" || !value.valid()) return value;
  return add(activation, activation, {value}, {});
}

ir::ValueId LayerContext::add_variable(std::string_view part, std::string_view attribute,
                                       DType dtype, Shape shape, Fans fans) const {
  if (!variables.empty() && variables != name) return shared_variable(part, dtype, shape);
  const auto given = std::ranges::find(initializers, attribute,
                                       &std::pair<std::string, WrittenInitializer>::first);
  const WrittenInitializer asked = given == initializers.end()
                                       ? default_initializer(attributes.get<std::string>(attribute))
                                       : given->second;
  const ir::ValueId variable =
      add_variable(part, resolve_initializer(asked, fans), dtype, std::move(shape));
  if (variable.valid()) set_regularizer(attributes, attribute, builder.graph().variables.back());
  return variable;
}

ir::ValueId LayerContext::add_variable(std::string_view part, plan::Initializer initializer,
                                       DType dtype, Shape shape) const {
  const size_t before = graph().variables.size();
  const ir::ValueId id = add_own(part, std::move(initializer), dtype, std::move(shape), trainable);
  if (stored && graph().variables.size() > before) {
    ir::Variable& variable = builder.graph().variables.back();
    variable.stored = stored;
    variable.stored_at = stored_at;
  }
  return id;
}

ir::ValueId LayerContext::add_table() const {
  const Shape shape{attributes.get<int64_t>("vocab_size"), attributes.get<int64_t>("units")};
  const ir::ValueId table =
      add_variable("weight", "embeddings_initializer", compute_dtype(), shape, fans_of(shape));
  if (table.valid() && attributes.get<bool>("sparse"))
    for (ir::Variable& variable : builder.graph().variables)
      if (variable.value == table) variable.sparse = spans.of("sparse");
  return table;
}

ir::ValueId LayerContext::add_statistic(std::string_view part, plan::Initializer initializer,
                                        DType dtype, Shape shape) const {
  return add_own(part, std::move(initializer), dtype, std::move(shape), false);
}

ir::ValueId LayerContext::add_own(std::string_view part, plan::Initializer initializer, DType dtype,
                                  Shape shape, bool trained) const {
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

namespace flow::grad {

Rules rules_of(const ops::OpSpec& op) {
  static const std::map<const ops::OpSpec*, Rules> kByOp = [] {
    std::map<const ops::OpSpec*, Rules> by_op;
    for (const auto family : {
#define FLOW_UNDIFFERENTIATED(family)
#define FLOW_FAMILY(family) family,
#include "ops/families.def"
         })
      for (const Rules& rules : family()) {
        const ops::OpSpec* spec = ops::find_spec(rules.op);
        FLOW_CHECK(spec && by_op.emplace(spec, rules).second, "rules of {}", rules.op);
      }
    return by_op;
  }();
  const auto found = kByOp.find(&op);
  return found == kByOp.end() ? Rules{op.name} : found->second;
}

}  // namespace flow::grad
