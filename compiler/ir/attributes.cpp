// Attributes of a call: defaults filled in from the op's table, types, choices and ranges checked.
#include "compiler/ir/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "compiler/ir/call_site.h"
#include "runtime/base/text.h"

namespace flow {
namespace {

using ir::Attribute;
using ops::AttributeType;

template <typename T>
T number_from(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FLOW_CHECK(error == std::errc() && end == text.data() + text.size(), "fallback `{}`", text);
  return value;
}

/// "[]", "all", "reversed", "1", "[1, 1]", "[[0, 1], [2, 3]]"
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
    case ops::AttributeType::kText:
    case ops::AttributeType::kIndex:
    case ops::AttributeType::kEquation:
    case ops::AttributeType::kInitializer:
    case ops::AttributeType::kActivation:
    case ops::AttributeType::kRegularizer:
      break;
  }
  return std::holds_alternative<std::string>(value);
}

/// What is wrong with the value, or nothing: "is -1, it must be at least 0".
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
    case ops::AttributeType::kText:
    case ops::AttributeType::kIndex:
    case ops::AttributeType::kEquation:
    case ops::AttributeType::kInitializer:
    case ops::AttributeType::kActivation:
    case ops::AttributeType::kRegularizer:
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
      // Initializers are kept apart; the file's reader has asked for them.
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
