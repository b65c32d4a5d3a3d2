// The schema of job files: the tables of sections, and a case for each op.
#include <fmt/format.h>

#include "compiler/ir/describe_ops.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/default_values.h"
#include "compiler/schema/schema.h"
#include "compiler/schema/sections.h"
#include "runtime/base/text.h"

namespace flow {
namespace schema {
namespace {

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

OrderedJson padding() {
  const OrderedJson pads = integer({.min = 0, .max = INT32_MAX});
  const OrderedJson pair = {{"type", "array"}, {"items", pads}, {"minItems", 2}, {"maxItems", 2}};
  return or_variable(
      {words(views(job::padding_words())),
       pads,
       {{"type", "array"}, {"items", any_of({pads, pair})}, {"minItems", 1}, {"maxItems", 3}}});
}

/// What the table says of an attribute's value.
OrderedJson attribute(const ops::OpSpec& op, const ops::AttributeSpec& def, Tables& tables) {
  const job::Bounds bounds{def.min, def.max, def.below};
  switch (def.type) {
    case ops::AttributeType::kBool:
      return reference("boolean");
    case ops::AttributeType::kInteger:
      return integer(bounds);
    case ops::AttributeType::kNumber:  // of a bool, also true or false
      return op.attribute("dtype") ? any_of({number(bounds), reference("boolean")})
                                   : number(bounds);
    case ops::AttributeType::kText:
      return or_variable({words(def.choices)});
    case ops::AttributeType::kIntegers: {
      OrderedJson list = list_of(integer(bounds), true);
      const bool word = is_name(def.fallback) && !op.attribute(def.fallback);
      return word ? any_of({words({def.fallback}), std::move(list)}) : list;
    }
    case ops::AttributeType::kIntegerOrList:
      return list_of(integer(bounds), true);
    case ops::AttributeType::kPairs:
      return list_of(
          {{"type", "array"}, {"items", integer(bounds)}, {"minItems", 2}, {"maxItems", 2}}, false);
    case ops::AttributeType::kIndex:
      return text(R"(^\[.*\]$)");
    case ops::AttributeType::kEquation:
      return text(R"(^[A-Za-z., ]+(->[A-Za-z. ]*)?$)");
    case ops::AttributeType::kDType:
      return reference("dtype");
    case ops::AttributeType::kPadding:
      return reference("padding");
    case ops::AttributeType::kInitializer:
      return tables.variants(job::initializers());
    case ops::AttributeType::kActivation:
      return reference("activation");
    case ops::AttributeType::kRegularizer:
      return tables.section(job::regularizer_section());
  }
  return {};
}

/// A call of one op, with no keys but its own.
OrderedJson call_of(const ops::OpSpec& op, Tables& tables) {
  OrderedJson properties = {{"op", true}, {"in", reference("in")}};
  OrderedJson required = OrderedJson::array();
  for (const ops::OperandSpec& operand : op.operands)
    properties[std::string(operand.name)] =
        described(reference(operand.name == "in" ? "in" : "text"), operand.doc);
  for (const ops::AttributeSpec& def : op.attributes) {
    const bool has_fallback = op.attribute(def.fallback) || job::is_unwritable(def);
    const std::string doc =
        has_fallback ? fmt::format("{}; default: {}", def.doc, def.fallback) : std::string(def.doc);
    properties[std::string(def.name)] =
        with_default(described(attribute(op, def, tables), doc), has_fallback ? "" : def.fallback);
    if (def.fallback.empty()) required.push_back(def.name);
  }
  const auto add = [&](const std::vector<job::KeyDef>& keys) {
    for (const job::KeyDef& key : keys) properties[std::string(key.name)] = tables.property(key);
  };
  add(job::training_keys(&op));
  add(job::call_keys());
  OrderedJson made = mapping(std::move(properties));
  // In a schema of its own: with `properties` beside it yaml-language-server would offer a block of
  // lines with all required keys, which breaks an entry that is written {op: conv2d, ...}.
  if (!required.empty()) made["allOf"] = OrderedJson::array({{{"required", std::move(required)}}});
  return made;
}

std::string doc_of(const ops::OpSpec& op) {
  return op.formula.empty() ? std::string(op.doc) : fmt::format("{}\n\n{}", op.doc, op.formula);
}

/// Calls of whatever they name. Those of networks take what the network takes, and parts what their
/// op does, which is not known here.
void define_entries(Tables& tables) {
  OrderedJson names = OrderedJson::array(), cases = OrderedJson::array();
  for (const ops::OpSpec* op : ops::written_specs()) {
    const std::string name = fmt::format("op_{}", op->name);
    tables.definitions()[name] = call_of(*op, tables);
    names.push_back(described({{"const", op->name}}, doc_of(*op)));
    cases.push_back(where("op", op->name, reference(name)));
  }
  names.push_back(described(text("^[A-Za-z_][A-Za-z0-9_]*$"), "a network of this file"));
  OrderedJson properties = {{"op", {{"anyOf", std::move(names)}}}, {"in", reference("in")}};
  for (const job::KeyDef& key : job::call_keys())
    properties[std::string(key.name)] = tables.property(key);
  OrderedJson call = {{"type", "object"}, {"properties", std::move(properties)}};
  tables.definitions()["part_of_entry"] = or_variable({call});
  call["required"] = {"op"};
  call["allOf"] = std::move(cases);
  tables.definitions()["entry"] = or_variable({std::move(call)});
}

}  // namespace
}  // namespace schema

std::string job_schema() {
  using namespace schema;
  Tables tables;
  OrderedJson& definitions = tables.definitions();
  definitions["in"] = described(list_of(reference("text"), true),
                                "operand or list of operands; default: the entry above");
  definitions["padding"] = padding();
  definitions["activation"] = or_variable({words(views(activation_names()))});
  define_entries(tables);
  OrderedJson made = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$comment",
       "Schema of flow job files. It has no title, because editors show a title at every key."},
      {"if", {{"required", {"include"}}}}};
  made["else"] = tables.section(job::file_section());
  tables.take_parts();
  made["then"] = tables.section(job::file_section());
  made["$defs"] = std::move(definitions);
  return written(made);
}

}  // namespace flow
