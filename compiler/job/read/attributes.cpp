// Reads the attributes of an entry, according to the table of the op, and initializers of
// variables, such as `zeros`, `0.1`, or `{type: truncated_normal, stddev: 0.1}`.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/describe_ops.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

using plan::Attribute;

/// Reads `valid`, `same` and so on as words, a number as a list with one number, and [1, 2] or [[0,
/// 1], [2, 3]] as two numbers for each dimension.
std::optional<Attribute> read_padding(Reader& reader, const yaml::Node& node,
                                      const std::string& what) {
  const std::vector<std::string>& words = padding_words();
  const Bounds bounds{.min = 0, .max = INT32_MAX};
  const auto bad = [&](const yaml::Node& where) -> std::optional<Attribute> {
    reader.error(Diagnosis::kBadScalar, where, "cannot parse {}", what)
        .with_hint("write `valid`, `same`, `same_lower`, `1`, `[1, 1]` or `[[0, 1], [0, 1]]`");
    return {};
  };
  if (node.is_scalar()) {
    if (std::ranges::find(words, node.scalar) != words.end()) return node.scalar;
    if (!parse_number(node.scalar)) {
      reader
          .error(Diagnosis::kUnknownChoice, node, "{} is `{}`; expected numbers, {}", what,
                 node.scalar, quoted_alternatives(words))
          .with_hint(suggestion(node.scalar, words));
      return {};
    }
    const auto all = read_integer(reader, node, what, bounds);
    if (!all) return {};
    return std::vector<int64_t>{*all};
  }
  if (!node.is_list() || node.items.empty() || node.items.size() > 3) return bad(node);
  std::vector<int64_t> pads;
  for (const yaml::Node& side : node.items) {
    const auto pair = read_integers(reader, side, what, bounds);
    if (!pair) return {};
    if (pair->size() != (side.is_list() ? 2u : 1u)) return bad(side);
    pads.push_back(pair->front());
    pads.push_back(pair->back());
  }
  return pads;
}

/// Reads [[0, 1], [2, 3]] as 0 1 2 3.
std::optional<std::vector<int64_t>> read_pairs(Reader& reader, const yaml::Node& node,
                                               const std::string& what, Bounds bounds) {
  const auto bad = [&](const yaml::Node& where) -> std::optional<std::vector<int64_t>> {
    reader.error(Diagnosis::kBadScalar, where, "cannot parse {}; expected a list of pairs", what)
        .with_hint("write one pair for each axis: `[[0, 0], [1, 2]]`");
    return {};
  };
  if (!node.is_list()) return bad(node);
  std::vector<int64_t> numbers;
  for (const yaml::Node& item : node.items) {
    if (!item.is_list() || item.items.size() != 2) return bad(item);
    const auto pair = read_integers(reader, item, what, bounds);
    if (!pair) return {};
    numbers.insert(numbers.end(), pair->begin(), pair->end());
  }
  return numbers;
}

/// Reads text in brackets. The op parses the inside.
std::optional<std::string> read_index(Reader& reader, const yaml::Node& node,
                                      const std::string& what) {
  if (node.is_scalar() && node.scalar.starts_with('[') && node.scalar.ends_with(']'))
    return node.scalar;
  reader.error(Diagnosis::kBadScalar, node, "cannot parse {}; expected a quoted index", what)
      .with_hint("write it as in NumPy, in quotes: `\"[:, 0, 1:-1]\"`");
  return {};
}

std::optional<Attribute> read_activation(Reader& reader, const yaml::Node& node,
                                         const std::string& what) {
  const std::vector<std::string>& names = activation_names();
  if (!reader.expect(
          node, yaml::Kind::kScalar, what,
          "write the name of an op with one operand; an op with attributes needs its own entry"))
    return {};
  if (std::ranges::find(names, node.scalar) != names.end()) return node.scalar;
  const ops::OpSpec* op = ops::find_written_spec(node.scalar);
  if (op && op->operands.size() == 1) {
    reader
        .error(Diagnosis::kUnknownOp, node,
               "{} is `{}`; expected an op that keeps shapes and needs no attributes", what,
               op->name)
        .with_hint("give `{}` an entry of its own", op->name);
    return {};
  }
  reader
      .error(Diagnosis::kUnknownOp, node, "{} is `{}`; expected an op with one operand", what,
             node.scalar)
      .with_hint(suggestion(node.scalar, names, "valid ops:"));
  return {};
}

template <typename T>
std::optional<Attribute> as_attribute(std::optional<T> value) {
  if (!value) return {};
  return Attribute(std::move(*value));
}

std::optional<Attribute> read_value(Reader& reader, const yaml::Node& node,
                                    const ops::AttributeSpec& def) {
  const std::string what = fmt::format("`{}`", def.name);
  const Bounds bounds{def.min, def.max, def.below};
  switch (def.type) {
    case ops::AttributeType::kBool:
      return as_attribute(read_bool(reader, node, what));
    case ops::AttributeType::kInteger:
      return as_attribute(read_integer(reader, node, what, bounds));
    case ops::AttributeType::kNumber:
      return as_attribute(read_number(reader, node, what, bounds, def.instead));
    case ops::AttributeType::kText:
      return as_attribute(read_choice(reader, node, what, def.choices));
    case ops::AttributeType::kIntegers:
      if (node.is_scalar() && node.scalar == def.fallback && is_name(def.fallback))
        return std::vector<int64_t>{};
      return as_attribute(read_integers(reader, node, what, bounds));
    case ops::AttributeType::kIntegerOrList:
      if (node.is_list()) return as_attribute(read_integers(reader, node, what, bounds));
      return as_attribute(read_integer(reader, node, what, bounds));
    case ops::AttributeType::kPairs:
      return as_attribute(read_pairs(reader, node, what, bounds));
    case ops::AttributeType::kIndex:
      return as_attribute(read_index(reader, node, what));
    case ops::AttributeType::kEquation:
      return as_attribute(read_text(reader, node, what));
    case ops::AttributeType::kDType:
      return as_attribute(read_dtype(reader, node, what));
    case ops::AttributeType::kPadding:
      return read_padding(reader, node, what);
    case ops::AttributeType::kActivation:
      return read_activation(reader, node, what);
    case ops::AttributeType::kInitializer:
    case ops::AttributeType::kRegularizer:
      break;
  }
  return {};
}

/// Reads {l1: 0.01, l2: 0.02}, which requires at least one of the two keys.
void read_regularizer(Reader& reader, const yaml::Node& node, const ops::AttributeSpec& def,
                      Entry& entry) {
  if (node.is_scalar() && parse_number(node.scalar)) {
    reader.error(Diagnosis::kWrongKind, node, "`{}` is a number; expected `l1` or `l2`", def.name)
        .with_hint("write `{{l2: {}}}`", node.scalar);
    return;
  }
  const Fields fields(reader, node, node.span, fmt::format("`{}`", def.name),
                      kRegularizerSection.keys);
  if (!fields.is_mapping()) return;
  if (!fields.find("l1") && !fields.find("l2"))
    reader.error(Diagnosis::kMissingKey, node, "`{}` requires `l1` or `l2`", def.name);
  for (const KeyDef& part : kRegularizerSection.keys)
    if (const auto value = fields.number(part.name))
      entry.attributes.set(fmt::format("{}.{}", def.name, part.name), *value);
}

}  // namespace

const std::vector<std::string>& padding_words() {
  static const std::vector<std::string> kAll = {"valid", "same", "same_upper", "same_lower"};
  return kAll;
}

void read_attribute(Reader& reader, const yaml::Node& node, const ops::AttributeSpec& def,
                    Entry& entry) {
  entry.spans.spans.emplace_back(def.name, node.span);
  const size_t before = reader.diags.error_count();
  if (reader.diags.is_silenced(node.span)) {
    // An error in the value was reported before. The value is not read, because any text in
    // brackets would be accepted as an index.
    entry.has_error = true;
  } else if (def.type == ops::AttributeType::kInitializer) {
    if (auto initializer = read_initializer(reader, node, fmt::format("`{}`", def.name)))
      entry.initializers.emplace_back(def.name, std::move(*initializer));
  } else if (def.type == ops::AttributeType::kRegularizer) {
    read_regularizer(reader, node, def, entry);
  } else if (auto value = read_value(reader, node, def)) {
    entry.attributes.set(def.name, std::move(*value));
  }
  if (reader.diags.error_count() > before) entry.has_error = true;
}

std::optional<WrittenInitializer> read_initializer(Reader& reader, const yaml::Node& node,
                                                   std::string_view what) {
  if (node.is_scalar())
    if (const auto value = parse_number(node.scalar)) return plan::initializers::Constant{*value};
  const ParsedVariant given(reader, node, node.span, what, kInitializers);
  if (!given.variant()) return {};
  WrittenInitializer made;
  const bool complete = read_record(given.fields(), *given.variant(), made).empty();
  if (const auto* uniform = std::get_if<plan::initializers::Uniform>(&made);
      uniform && complete && uniform->min >= uniform->max)
    reader.error(Diagnosis::kOutOfRange, *given.fields().find("max"),
                 "`max` is {}; expected more than `min`, {}", shortest(uniform->max),
                 shortest(uniform->min));
  return made;
}

}  // namespace flow::job
