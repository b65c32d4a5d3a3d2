// Adds inputs, variables and nodes to a graph.
#include "compiler/ir/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/call_site.h"
#include "ops/core/check.h"
#include "ops/core/known.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::ir {
namespace {

/// Returns the dtype that a hint suggests for the cast of an operand.
DType cast_target(ops::Accepts accepts, DType compute) {
  if (accepts == ops::Accepts::kInteger) return DType::kInt32;
  return accepts == ops::Accepts::kBool ? DType::kBool : compute;
}

bool all_valid(std::span<const ValueId> operands) {
  return std::ranges::all_of(operands, [](ValueId operand) { return operand.valid(); });
}

bool countable(const Shape& shape, const std::string& name, Span span, Diags& diags) {
  if (shape.rank() > plan::kMaxRank) {
    diags.error(Diagnosis::kRankMismatch, span,
                fmt::format("{} has {} dimensions; at most {} are supported", name, shape.rank(),
                            plan::kMaxRank));
    return false;
  }
  if (shape.checked_elements()) return true;
  diags.error(Diagnosis::kTensorTooLarge, span,
              fmt::format("{} is {}; its size in bytes overflows", name, shape.str()));
  return false;
}

void infer(const ops::OpSpec& op, ops::Call& call, Attributes& attributes) {
  if (op.normalize) op.normalize(call, attributes);
  if (!call.failed()) op.infer(call);
}

/// Returns the axis along which `whole` is `shards` times as long as `part`. Returns kBatchReduced
/// if the shapes are equal or differ in any other way.
int axis_of_rows(const Shape& part, const Shape& whole, int64_t shards) {
  if (part.rank() != whole.rank()) return kBatchReduced;
  int found = kBatchReduced;
  for (int axis = 0; axis < part.rank(); ++axis) {
    if (part[axis] == whole[axis]) continue;
    if (found >= 0 || part[axis] * shards != whole[axis]) return kBatchReduced;
    found = axis;
  }
  return found;
}

}  // namespace

std::string Builder::unique(std::string name) const {
  if (!graph_.find(name).valid()) return name;
  for (int number = 2;; ++number) {
    std::string numbered = fmt::format("{}.{}", name, number);
    if (!graph_.find(numbered).valid()) return numbered;
  }
}

ValueId Builder::add_input(std::string name, DType dtype, Shape shape, int batch_axis, Span span) {
  if (!countable(shape, name, span, diags_)) return {};
  const ValueId id(graph_.values.size());
  graph_.values.push_back({unique(std::move(name)), dtype, std::move(shape), batch_axis, NodeId(),
                           plan::Role::kInput, span, device_});
  graph_.inputs.push_back(id);
  return id;
}

ValueId Builder::add_variable(std::string name, DType dtype, Shape shape,
                              plan::Initializer initializer, bool trainable, bool slot, Span span) {
  if (!countable(shape, name, span, diags_)) return {};
  const ValueId id(graph_.values.size());
  graph_.values.push_back({unique(std::move(name)), dtype, std::move(shape), kNoBatch, NodeId(),
                           plan::Role::kVariable, span, device_});
  graph_.variables.push_back({id, std::move(initializer), trainable, slot, ValueId()});
  return id;
}

ValueId Builder::add_state(std::string name, ValueId of) {
  Value made = graph_[of];
  made.name = unique(name + ":state");
  made.producer = NodeId();
  made.role = plan::Role::kVariable;
  const ValueId id(graph_.values.size());
  graph_.values.push_back(std::move(made));
  graph_.loop->states.push_back({std::move(name), id, of, {}});
  return id;
}

/// Returns true if each of the two operands fits only in the place of the other one.
bool Builder::are_swapped(const ops::OpSpec& op, const CallSite& site) const {
  const auto required = std::ranges::count(op.operands, false, &ops::OperandSpec::optional);
  if (site.operands() != 2 || required != 2) return false;
  const auto fits = [&](size_t operand, size_t value) {
    return ops::accepts(op.operands[operand], site.operand(value).dtype,
                        {.compute = graph_.compute_dtype});
  };
  return !fits(0, 0) && !fits(1, 1) && fits(0, 1) && fits(1, 0);
}

template <typename Place>
bool Builder::check_operands(const ops::OpSpec& op, CallSite& site, Place place) const {
  const bool variadic = !op.operands.empty() && op.operands.back().variadic;
  const auto required = std::ranges::count(op.operands, false, &ops::OperandSpec::optional);
  if (site.operands() < static_cast<size_t>(required) ||
      (!variadic && site.operands() > op.operands.size())) {
    site.bad_op(Diagnosis::kOperandCount,
                fmt::format("`{}` takes {}; found {}", op.name,
                            counted(op.operands.size(), "operand"), site.operands()));
    return false;
  }
  if (are_swapped(op, site)) {
    const ops::OperandSpec &first = op.operands[0], &second = op.operands[1];
    site.bad_operand(0, Diagnosis::kDTypeMismatch,
                     fmt::format("`{}` is {} and `{}` is {}: the operands are swapped", first.name,
                                 name_of(site.operand(0).dtype), second.name,
                                 name_of(site.operand(1).dtype)))
        .with_hint(site.written(0).empty() || site.written(1).empty()
                       ? "exchange the operands"
                       : fmt::format("write `{}: {}, {}: {}`", first.name, site.written(1),
                                     second.name, site.written(0)));
    return false;
  }
  for (size_t i = 0; i < site.operands(); ++i) {
    if (!site.id(i).valid()) continue;  // an optional operand that is omitted
    const Value& value = site.operand(i);
    const ops::OperandSpec& def = place(i, value.dtype);
    if (ops::accepts(def, value.dtype, {.compute = graph_.compute_dtype})) continue;
    const Node* maker = graph_.producer_of(site.id(i));
    // A number takes its dtype from the other operand, so its error would only repeat the first
    // one.
    if (site.failed() && maker && maker->op == ops::kFill) continue;
    const DType dtype = cast_target(def.accepts, graph_.compute_dtype);
    site.bad_operand(
            i, Diagnosis::kDTypeMismatch,
            fmt::format("`{}` of `{}` is {}; expected {}", def.name, op.name, name_of(value.dtype),
                        ops::expected_dtypes(def.accepts, graph_.compute_dtype)))
        .with_hint(def.instead.empty()
                       ? fmt::format("convert with `{{op: cast, dtype: {}}}`", name_of(dtype))
                       : std::string(def.instead));
  }
  return !site.failed();
}

bool Builder::is_per_shard(std::span<const ValueId> operands, const ops::Call& whole) const {
  const auto any = [&](auto has) { return std::ranges::any_of(operands, has); };
  const auto depends = [&](ValueId id) { return graph_[id].batch_axis != kNoBatch; };
  if (graph_.shards == 1 || per_shard_ == PerShard::kNever || !any(depends)) return false;
  if (per_shard_ == PerShard::kAlways) return true;
  const bool reads_own = any([&](ValueId id) { return graph_.is_own(id); });
  const bool reads_parts =
      any([&](ValueId id) { return graph_[id].batch_axis == kBatchReduced && !graph_.is_own(id); });
  if (per_shard_ == PerShard::kOfOwn) return reads_own && !reads_parts;
  return reads_own || reads_parts ||
         (!whole.failed() && whole.results()[0].batch_axis == kBatchReduced);
}

/// Infers the results in one shard. Results with rows have the shape that they have after the rows
/// of all shards are joined. `whole` is the call for the whole batch; it shows which axis contains
/// the rows if the op works along the batch.
std::vector<ops::Result> Builder::infer_per_shard(const ops::OpSpec& op, const ops::Call& whole,
                                                  Attributes& attributes, CallSite& site) const {
  std::vector<ValueId> operands;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < site.operands(); ++i) {
    operands.push_back(site.id(i));
    shapes.push_back(graph_.shape_of_shard(site.id(i)));
  }
  ops::Call call = call_of_shard(graph_, operands, shapes, attributes);
  infer(op, call, attributes);
  for (ops::Refusal refusal : call.refusals()) {
    refusal.with_hint(fmt::format(
        "use one shard; here each of {} computes the entry from its own rows", graph_.shards));
    site.report(refusal);
  }
  std::vector<ops::Result> results = call.results();
  const bool compares = per_shard_ != PerShard::kAlways && !whole.failed();
  for (size_t i = 0; i < results.size(); ++i) {
    auto& [dtype, shape, batch_axis, combine] = results[i];
    combine = ops::Combine::kNone;
    if (batch_axis < 0)
      batch_axis =
          compares ? axis_of_rows(shape, whole.results()[i].shape, graph_.shards) : kBatchReduced;
    if (batch_axis >= 0 && !graph_.cut) shape[batch_axis] *= graph_.shards;
  }
  return results;
}

std::vector<ValueId> Builder::add(const ops::OpSpec& op, std::string name,
                                  std::vector<ValueId> operands, Attributes attributes,
                                  const AttributeSpans& spans) {
  FLOW_CHECK(op.infer, "{} is a layer", op.name);
  std::vector<ValueId> invalid(op.results.size());
  if (!all_valid(operands)) return invalid;
  const bool complete = complete_attributes(op, name, spans, diags_, attributes);
  CallSite site(graph_, name, operands, spans, diags_);
  const auto place = [&op](size_t i, DType dtype) -> const ops::OperandSpec& {
    return op.operand(i, dtype);
  };
  if (!check_operands(op, site, place) || !complete) return invalid;
  const Attributes written = graph_.shards > 1 ? attributes : Attributes();
  ops::Call call = typed_call(graph_, operands, attributes);
  infer(op, call, attributes);
  const bool per_shard = is_per_shard(operands, call);
  if (per_shard) attributes = written;
  const std::vector<ops::Result> results =
      per_shard ? infer_per_shard(op, call, attributes, site) : call.results();
  if (!per_shard)
    for (const ops::Refusal& refusal : call.refusals()) site.report(refusal);
  if (site.failed()) return invalid;
  const size_t count = results.size();
  FLOW_CHECK(count == op.results.size() || op.results.back().variadic, "{}", op.name);

  Node node{&op,
            unique(std::move(name)),
            std::move(operands),
            {},
            std::move(attributes),
            {},
            false,
            spans.op,
            device_,
            false,
            per_shard};
  node.once = std::ranges::any_of(node.operands, [&](ValueId id) {
    const Node* producer = id.valid() ? graph_.producer_of(id) : nullptr;
    return producer && producer->once;
  });
  const NodeId id(graph_.nodes.size());
  for (size_t i = 0; i < count; ++i) {
    const auto& [dtype, shape, batch_axis, combine] = results[i];
    node.results.emplace_back(graph_.values.size());
    graph_.values.push_back(
        {i == 0 ? node.name : unique(fmt::format("{}.{}", node.name, op.result_name(i))), dtype,
         shape, batch_axis, id, plan::Role::kResult, spans.op, device_,
         combine == ops::Combine::kNone ? std::nullopt : std::optional(combine)});
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().results;
}

ValueId Builder::add(std::string_view op, std::string name, std::vector<ValueId> operands,
                     Attributes attributes, Span span) {
  const ops::OpSpec* def = ops::find_spec(op);
  FLOW_CHECK(def, "{}", op);
  AttributeSpans spans;
  spans.op = span;
  const ValueId result = add(*def, name, std::move(operands), std::move(attributes), spans).front();
  // A gradient can exceed the size limit even if all tensors of the file are within it.
  FLOW_CHECK(result.valid() || diags_.error_count() > 0, "{} {}", op, name);
  return result;
}

ValueId Builder::add_layer(const ops::OpSpec& layer, LayerContext call) {
  const ExpandRule expand = grad::rules_of(layer).expand;
  FLOW_CHECK(expand, "{} is not a layer", layer.name);
  for (size_t i = 0; i < call.operands.size(); ++i)
    if (!call.operands[i].valid() && !layer.operand(i).optional) return {};
  const bool complete = complete_attributes(layer, call.name, call.spans, diags_, call.attributes);
  CallSite site = call.site();
  const auto place = [&layer](size_t i, DType) -> const ops::OperandSpec& {
    return layer.operand(i);
  };
  if (!check_operands(layer, site, place) || !complete) return {};
  const ValueId value = expand(call);
  alias(call.name, value);
  return value;
}

void Builder::alias(std::string name, ValueId value) {
  if (!value.valid() || graph_.find(name) == value) return;
  graph_.aliases.push_back({unique(std::move(name)), value});
}

}  // namespace flow::ir
