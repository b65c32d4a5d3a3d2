// Implements calls of ops, as messages see them, with the chain of shapes, and as shape functions
// see them; also the attributes of calls.
#include "compiler/ir/call_site.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "compiler/source/source.h"
#include "runtime/base/text.h"

namespace flow {
namespace {

using ir::Attribute;
using ops::AttributeType;

constexpr int kMaxLinks = 6;

class Chain {
 public:
  Chain(const ir::Graph& graph, const Sources& sources) : graph_(graph), sources_(sources) {}

  std::string text(ir::ValueId value) const {
    std::string text = fmt::format("{} is {}{}", entry_of(value), graph_[value].shape.str(),
                                   made_by(graph_[value]));
    for (int link = 1; (value = source_of(value)).valid(); ++link) {
      if (link == kMaxLinks) return text + " <- ...";
      text += fmt::format(" <- {} {}{}", entry_of(value), graph_[value].shape.str(),
                          line_of(graph_[value].span));
    }
    return text;
  }

 private:
  /// Returns the user's name for the value: the entry of a layer instead of its last primitive.
  const std::string& entry_of(ir::ValueId value) const {
    const std::string& name = graph_[value].name;
    for (const ir::Alias& alias : graph_.aliases)
      if (alias.value == value && name.starts_with(alias.name + "/")) return alias.name;
    return name;
  }

  std::string line_of(Span span) const {
    if (!span.valid()) return {};
    return fmt::format(" (line {})", sources_[span.source].position(span.begin).line);
  }

  /// Returns a link such as " <- max_pool2d 4 (line 8)".
  std::string made_by(const ir::Value& value) const {
    if (!value.producer.valid()) return line_of(value.span);
    const ir::Node& node = graph_[value.producer];
    std::string op(sources_.text(node.span));
    if (op.empty()) op = node.op->name;
    if (op == node.op->name) op += sizes_of(node);
    return fmt::format(" <- {}{}", op, line_of(node.span));
  }

  /// Returns the sizes that matter most to the reader of a call, such as " 4" or " [2, 3]".
  std::string sizes_of(const ir::Node& node) const {
    for (const ops::AttributeSpec& def : node.op->attributes) {
      if (def.type != ops::AttributeType::kIntegers || !def.fallback.empty()) continue;
      const auto& sizes = node.attributes.get<std::vector<int64_t>>(def.name);
      const bool equal = std::ranges::adjacent_find(sizes, std::not_equal_to<>()) == sizes.end();
      if (equal && !sizes.empty() && !node.op->view) return fmt::format(" {}", sizes.front());
      return " " + Shape(sizes).str();
    }
    return {};
  }

  /// Returns the first operand of the entry that `value` belongs to. All primitives of a layer form
  /// one link.
  ir::ValueId source_of(ir::ValueId value) const {
    const Span entry = graph_[value].span;
    do {
      const ir::Node* producer = graph_.producer_of(value);
      if (!producer || producer->operands.empty()) return {};
      value = producer->operands.front();
    } while (entry.valid() && graph_[value].span == entry &&
             graph_[value].role == plan::Role::kResult);
    return value;
  }

  const ir::Graph& graph_;
  const Sources& sources_;
};

/// Follows first operands back from `value`, entry by entry, and returns a text such as "pool1 is
/// [64, 20, 6, 6] <- max_pool2d 4 (line 8) <- conv1 [64, 20, 24, 24] (line 7) <- ...".
std::string shape_chain(const ir::Graph& graph, const Sources& sources, ir::ValueId value) {
  return Chain(graph, sources).text(value);
}

Diagnosis diagnosis_of(ops::Reason reason) {
  constexpr Diagnosis kDiagnoses[] = {
      Diagnosis::kBadAttribute,  Diagnosis::kDTypeMismatch,  Diagnosis::kMissingAttribute,
      Diagnosis::kOperandCount,  Diagnosis::kOutOfRange,     Diagnosis::kRankMismatch,
      Diagnosis::kShapeMismatch, Diagnosis::kTensorTooLarge, Diagnosis::kWindow};
  return kDiagnoses[static_cast<size_t>(reason)];
}

/// Returns the number of rows in the inputs of the job, or 0 if no input has rows.
int64_t batch_of(const ir::Graph& graph) {
  for (const ir::ValueId input : graph.inputs)
    if (const ir::Value& value = graph[input]; value.batch_axis >= 0)
      return value.shape[value.batch_axis];
  return 0;
}

template <typename T>
T number_from(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FLOW_CHECK(error == std::errc() && end == text.data() + text.size(), "fallback `{}`", text);
  return value;
}

/// Reads integers from a text such as "[]", "all", "reversed", "1", "[1, 1]", or "[[0, 1], [2,
/// 3]]".
std::vector<int64_t> integers_from(std::string_view text) {
  std::vector<int64_t> integers;
  if (text == "all" || text == "reversed") return integers;
  std::string flat(text);
  std::erase_if(flat, [](char c) { return c == '[' || c == ']' || c == ' '; });
  if (flat.empty()) return integers;
  for (const std::string& item : split(flat, ',')) integers.push_back(number_from<int64_t>(item));
  return integers;
}

bool has_type(ops::AttributeType type, const Attribute& value) {
  switch (type) {
    case ops::AttributeType::kBool:
      return std::holds_alternative<bool>(value);
    case ops::AttributeType::kInteger:
      return std::holds_alternative<int64_t>(value);
    case ops::AttributeType::kNumber:
      return std::holds_alternative<double>(value);
    case ops::AttributeType::kIntegers:
    case ops::AttributeType::kPairs:
      return std::holds_alternative<std::vector<int64_t>>(value);
    case ops::AttributeType::kIntegerOrList:
      return std::holds_alternative<int64_t>(value) ||
             std::holds_alternative<std::vector<int64_t>>(value);
    case ops::AttributeType::kDType:
      return std::holds_alternative<DType>(value);
    case ops::AttributeType::kPadding:
      return std::holds_alternative<std::string>(value) ||
             std::holds_alternative<std::vector<int64_t>>(value);
    default:
      return std::holds_alternative<std::string>(value);
  }
}

/// Returns an error message about the value, such as "is -1; expected at least 0", or an empty
/// string.
std::string complaint(const ops::AttributeSpec& def, const Attribute& value) {
  const auto outside = [&](double number) -> std::string {
    if (def.min && !(number >= *def.min))
      return fmt::format("is {}; expected at least {}", shortest(number), shortest(*def.min));
    if (def.max && !(number <= *def.max))
      return fmt::format("is {}; expected at most {}", shortest(number), shortest(*def.max));
    if (def.below && !(number < *def.below))
      return fmt::format("is {}; expected below {}", shortest(number), shortest(*def.below));
    return {};
  };
  if (const auto* number = std::get_if<double>(&value)) return outside(*number);
  if (const auto* integer = std::get_if<int64_t>(&value))
    return outside(static_cast<double>(*integer));
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    for (const int64_t integer : *list)
      if (std::string found = outside(static_cast<double>(integer)); !found.empty()) return found;
  if (const auto* text = std::get_if<std::string>(&value);
      text && !def.choices.empty() && std::ranges::find(def.choices, *text) == def.choices.end())
    return fmt::format(
        "is `{}`; expected {}", *text,
        quoted_alternatives(std::vector<std::string>(def.choices.begin(), def.choices.end())));
  return {};
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
  // A mismatch is usually between the first operand and another one, so the message shows both
  // chains.
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

Attribute attribute_from(ops::AttributeType type, std::string_view text) {
  switch (type) {
    case ops::AttributeType::kBool:
      return text == "true";
    case ops::AttributeType::kInteger:
      return number_from<int64_t>(text);
    case ops::AttributeType::kNumber:
      return text == "1/sqrt(D)" ? std::nan("") : number_from<double>(text);
    case ops::AttributeType::kIntegers:
    case ops::AttributeType::kPairs:
      return integers_from(text);
    case ops::AttributeType::kDType:
      return parse_dtype(text).value();
    case ops::AttributeType::kIntegerOrList:
      if (text.starts_with('[')) return integers_from(text);
      return number_from<int64_t>(text);
    case ops::AttributeType::kPadding:
      if (text.starts_with('[')) return integers_from(text);
      break;
    default:
      break;
  }
  return std::string(text);
}

bool complete_attributes(const ops::OpSpec& op, std::string_view name, const AttributeSpans& spans,
                         Diags& diags, ir::Attributes& attributes) {
  bool complete = true;
  const auto error = [&](Diagnosis diagnosis, Span span, std::string_view message) {
    diags.error(diagnosis, span, fmt::format("{}: {}", name, message));
    complete = false;
  };
  for (const ops::AttributeSpec& def : op.attributes) {
    const Attribute* given = attributes.find(def.name);
    if (!given && def.fallback.empty()) {
      // Initializers are stored separately, and the reader of the file has already checked them.
      if (def.type == ops::AttributeType::kInitializer) continue;
      error(Diagnosis::kMissingAttribute, spans.op,
            fmt::format("`{}` needs `{}`", op.name, def.name));
    } else if (!given && def.type == AttributeType::kInteger && def.fallback == "none") {
      continue;
    } else if (!given) {
      const Attribute* taken_over = attributes.find(def.fallback);
      attributes.set(def.name, taken_over ? *taken_over : attribute_from(def.type, def.fallback));
    } else if (!has_type(def.type, *given)) {
      error(Diagnosis::kBadAttribute, spans.of(def.name),
            fmt::format("`{}` of `{}` has the wrong type", def.name, op.name));
    } else if (const std::string wrong = complaint(def, *given); !wrong.empty()) {
      error(Diagnosis::kOutOfRange, spans.of(def.name), fmt::format("`{}` {}", def.name, wrong));
    }
  }
  return complete;
}

}  // namespace flow
