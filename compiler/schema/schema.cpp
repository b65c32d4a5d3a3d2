// Makes the schema of job files, from the tables of sections and a case for each op, and the schema
// of plans, with a visitor over the fields of their structs.
#include "compiler/schema/schema.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/describe_ops.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "compiler/schema/forms.h"
#include "runtime/base/names.h"
#include "runtime/plan/json/fields.h"
#include "runtime/plan/model/named_values.h"

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

/// Returns the schema of an attribute's value according to the table.
OrderedJson attribute(const ops::OpSpec& op, const ops::AttributeSpec& def, Tables& tables) {
  const job::Bounds bounds{def.min, def.max, def.below};
  switch (def.type) {
    case ops::AttributeType::kBool:
      return reference("boolean");
    case ops::AttributeType::kInteger:
      return integer(bounds);
    // If the op has a dtype, which may be bool, also accepts true and false.
    case ops::AttributeType::kNumber:
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
      return tables.variants(job::kInitializers);
    case ops::AttributeType::kActivation:
      return reference("activation");
    case ops::AttributeType::kRegularizer:
      return tables.section(job::kRegularizerSection);
  }
  return {};
}

/// Returns the schema of a call of one op, which accepts only the keys of this op.
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
  add(job::kCallKeys);
  OrderedJson made = mapping(std::move(properties));
  // The required keys are in a separate schema. If they were next to `properties`,
  // yaml-language-server would offer a block of lines with all required keys, which breaks an entry
  // that is written as {op: conv2d, ...}.
  if (!required.empty()) made["allOf"] = OrderedJson::array({{{"required", std::move(required)}}});
  return made;
}

std::string doc_of(const ops::OpSpec& op) {
  return op.formula.empty() ? std::string(op.doc) : fmt::format("{}\n\n{}", op.doc, op.formula);
}

/// Defines the entries of graphs. A call of a network accepts any keys, because they depend on the
/// network. A part of an entry also accepts any keys, because its op may be unknown.
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
  for (const job::KeyDef& key : job::kCallKeys)
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
  made["else"] = tables.section(job::kFileSection);
  tables.take_parts();
  made["then"] = tables.section(job::kFileSection);
  made["$defs"] = std::move(definitions);
  return written(made);
}

namespace {

using schema::described, schema::reference, schema::words;

OrderedJson type(std::string_view name) { return {{"type", name}}; }

OrderedJson list_of(OrderedJson item) { return {{"type", "array"}, {"items", std::move(item)}}; }

OrderedJson or_null(OrderedJson schema) { return {{"anyOf", {std::move(schema), type("null")}}}; }

/// Returns the schema of numbers. Numbers that are not finite are written as {"float": "inf"}.
OrderedJson number() {
  OrderedJson others = {{"type", "object"},
                        {"properties", {{"float", {{"enum", {"inf", "-inf", "nan"}}}}}},
                        {"required", OrderedJson::array({"float"})},
                        {"additionalProperties", false}};
  return {{"anyOf", {type("number"), std::move(others)}}};
}

/// Receives the fields of a struct as in fields.h, and makes the schema of an object from them.
class Object {
 public:
  template <typename T>
  static OrderedJson object(const T& value) {
    Object made;
    plan::fields(made, value);
    return {{"type", "object"},
            {"properties", std::move(made.properties_)},
            {"required", std::move(made.required_)},
            {"additionalProperties", false}};
  }

  template <typename T>
  void operator()(std::string_view key, const T& value) {
    properties_[std::string(key)] = of(value);
    required_.push_back(key);
  }
  template <typename T>
  void given(std::string_view key, const T& value) {
    if constexpr (requires { *value; })
      properties_[std::string(key)] = of(typename T::value_type{});
    else
      properties_[std::string(key)] = of(value);
  }
  template <typename T>
  void one_or_more(std::string_view key, const std::vector<T>& list) {
    properties_[std::string(key)] = {{"anyOf", {of(T{}), of(list), type("null")}}};
    required_.push_back(key);
  }
  template <typename T>
  void remark(std::string_view key, const T& value) {
    (*this)(key, value);
  }
  void remarks(std::string_view key, const std::vector<std::string>& texts) {
    properties_[std::string(key)] = {{"anyOf", {of(std::string()), of(texts)}}};
    required_.push_back(key);
  }
  template <typename V, typename Describe>
  void named(const V&, std::string_view, const Describe& describe) {
    const plan::NamedValues values;
    describe(values);
  }
  void names_of(const plan::Job&) {}

 private:
  OrderedJson of(bool) { return type("boolean"); }
  OrderedJson of(int) { return type("integer"); }
  OrderedJson of(int64_t) { return type("integer"); }
  OrderedJson of(uint64_t) { return {{"type", "integer"}, {"minimum", 0}}; }
  OrderedJson of(double) { return reference("number"); }
  OrderedJson of(const std::string&) { return type("string"); }
  OrderedJson of(const ops::OpRef&) { return type("string"); }
  OrderedJson of(DType) { return reference("dtype"); }
  OrderedJson of(plan::TensorId) { return reference("tensor"); }
  OrderedJson of(plan::StepId) { return reference("step"); }
  OrderedJson of(const Shape&) { return reference("shape"); }
  OrderedJson of(const plan::Attributes&) { return reference("attributes"); }
  OrderedJson of(const plan::ReturnValue&) { return reference("return_value"); }
  OrderedJson of(const std::pair<int64_t, int64_t>&) {
    return {{"type", "array"}, {"items", type("integer")}, {"minItems", 2}, {"maxItems", 2}};
  }
  template <typename T>
  OrderedJson of(const std::vector<T>&) {
    return list_of(of(T{}));
  }
  template <typename T, size_t N>
  OrderedJson of(const std::array<T, N>&) {
    return {{"type", "array"}, {"items", of(T{})}, {"minItems", N}, {"maxItems", N}};
  }
  template <typename T>
  OrderedJson of(const std::optional<T>&) {
    return or_null(of(T{}));
  }
  template <typename T>
  OrderedJson of(const std::map<std::string, T>&) {
    return {{"type", "object"}, {"additionalProperties", of(T{})}};
  }
  /// Returns the schema of an object with one key, which names the alternative.
  template <typename... T>
  requires plan::HasEnumNames<std::variant<T...>> OrderedJson of(const std::variant<T...>&) {
    OrderedJson any = OrderedJson::array();
    const auto add = [&any](OrderedJson alternative) {
      const std::string key(plan::EnumNames<std::variant<T...>>::words[any.size()]);
      any.push_back({{"type", "object"},
                     {"properties", {{key, std::move(alternative)}}},
                     {"required", OrderedJson::array({key})},
                     {"additionalProperties", false}});
    };
    (add(of(T{})), ...);
    return {{"anyOf", std::move(any)}};
  }
  template <typename T>
  OrderedJson of(const T& value) {
    if constexpr (std::is_enum_v<T>)
      return words(job::words_of<T>());
    else
      return object(value);
  }

  OrderedJson properties_ = OrderedJson::object();
  OrderedJson required_ = OrderedJson::array();
};

OrderedJson definitions() {
  const OrderedJson integers = list_of(type("integer"));
  const OrderedJson attribute = {
      {"anyOf", {type("boolean"), reference("number"), type("string"), integers}}};
  return {{"number", number()},
          {"dtype", words(job::dtype_names())},
          {"shape",
           {{"type", "array"},
            {"items", {{"type", "integer"}, {"minimum", 1}}},
            {"maxItems", plan::kMaxRank}}},
          {"tensor", described(or_null(type("string")), "name of a tensor in the job")},
          {"step", described(or_null(type("string")), "name of a step in the job")},
          {"attributes", {{"type", "object"}, {"additionalProperties", attribute}}},
          {"return_value", Object::object(plan::ReturnValue{})}};
}

}  // namespace

std::string plan_schema() {
  OrderedJson made = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                      {"title", "flow plan"}};
  made.update(Object::object(plan::Document{}));
  made["properties"]["version"] = {{"const", plan::kVersion}};
  made["$defs"] = definitions();
  return schema::written(made);
}

}  // namespace flow
