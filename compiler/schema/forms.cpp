// Makes the schemas of single values.
#include "compiler/schema/forms.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/job/text/reader.h"
#include "compiler/job/text/values.h"

namespace flow::schema {
namespace {

constexpr std::string_view kDecimal = R"(-?((0|[1-9]\d*)(\.\d+)?|\.\d+)([eE][-+]?\d+)?)";

/// Returns the number as JSON. A whole number has no fraction.
OrderedJson shortest_number(double value) {
  if (value == std::floor(value) && std::abs(value) < 0x1p53) return static_cast<int64_t>(value);
  return value;
}

void set_bounds(OrderedJson& schema, job::Bounds bounds) {
  if (bounds.min) schema["minimum"] = shortest_number(*bounds.min);
  if (bounds.max) schema["maximum"] = shortest_number(*bounds.max);
  if (bounds.above) schema["exclusiveMinimum"] = shortest_number(*bounds.above);
  if (bounds.below) schema["exclusiveMaximum"] = shortest_number(*bounds.below);
}

OrderedJson matching(std::string_view pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

/// Returns the schema of an entry's name. If `note` is true, `note` is accepted as a key, because
/// notes may appear between entries. Editors show the title where a name is expected.
OrderedJson name(bool note) {
  OrderedJson reserved = OrderedJson::array();
  for (const std::string_view one : job::reserved_names())
    if (!note || one != "note") reserved.push_back(one);
  return {{"title", "name"}, {"$ref", "#/$defs/any_name"}, {"not", {{"enum", reserved}}}};
}

/// Returns the schema of a number, or of text that spells one. It does not use alternatives,
/// because an editor would show each of them.
OrderedJson spelled(std::string_view type, job::Bounds bounds) {
  OrderedJson made = {{"type", {"string", type}}};
  set_bounds(made, bounds);
  made["allOf"] = OrderedJson::array({reference("spelled")});
  return made;
}

/// Returns the schema of names, nested to any depth. The keys name folders.
OrderedJson nested() {
  return any_of({reference("text"),
                 {{"type", "array"}, {"minItems", 1}, {"items", reference("nested")}},
                 {{"type", "object"},
                  {"minProperties", 1},
                  {"propertyNames", {{"pattern", R"(^(?!\.{1,2}$)[^/]+$)"}}},
                  {"additionalProperties", reference("nested")}}});
}

void write(const OrderedJson& json, size_t indent, std::string& out) {
  const std::string flat = json.dump();
  if (!json.is_structured() || indent + flat.size() <= 100) {
    out += flat;
    return;
  }
  const bool object = json.is_object();
  out += object ? '{' : '[';
  for (auto it = json.begin(); it != json.end(); ++it) {
    out += fmt::format("{}\n{:{}}", it == json.begin() ? "" : ",", "", indent + 1);
    if (object) out += OrderedJson(it.key()).dump() + ": ";
    write(*it, indent + 1, out);
  }
  out += fmt::format("\n{:{}}", "", indent);
  out += object ? '}' : ']';
}

}  // namespace

std::string written(const OrderedJson& schema) {
  std::string out;
  write(schema, 0, out);
  return out + "\n";
}

OrderedJson reference(std::string_view name) { return {{"$ref", fmt::format("#/$defs/{}", name)}}; }

OrderedJson common_definitions() {
  return {
      // This definition has only a title, because editors show the first description that they
      // find, which is then that of the key.
      {"variable",
       {{"title", "$name, or text with $(expressions)"}, {"type", "string"}, {"pattern", "[$]"}}},
      {"spelled", {{"pattern", fmt::format("[$]|^{0}(/{0})?$", kDecimal)}}},
      {"scalar", {{"type", {"string", "number", "boolean"}}}},
      {"text", {{"type", {"string", "number", "boolean"}}, {"minLength", 1}}},
      {"boolean", {{"type", {"boolean", "string"}}, {"pattern", "[$]|^(true|false)$"}}},
      {"integer", integer()},
      {"number", number()},
      {"dtype", or_variable({words(job::dtype_names())})},
      {"shape",
       or_variable(
           {{{"type", "array"}, {"maxItems", plan::kMaxRank}, {"items", integer({.min = 1})}}})},
      {"nested", nested()},
      {"any_name", {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}}},
      {"name", name(false)},
      {"name_or_note", name(true)}};
}

OrderedJson any_of(std::vector<OrderedJson> schemas) {
  if (schemas.size() == 1) return std::move(schemas.front());
  return {{"anyOf", std::move(schemas)}};
}

OrderedJson or_variable(std::vector<OrderedJson> schemas) {
  schemas.push_back(reference("variable"));
  return any_of(std::move(schemas));
}

OrderedJson words(const std::vector<std::string_view>& choices) { return {{"enum", choices}}; }

OrderedJson integer(job::Bounds bounds) { return spelled("integer", bounds); }

OrderedJson number(job::Bounds bounds) { return spelled("number", bounds); }

OrderedJson list_of(OrderedJson item, bool one, size_t at_least) {
  OrderedJson list = {{"type", "array"}, {"items", item}};
  if (at_least > 0) list["minItems"] = at_least;
  return one ? any_of({std::move(item), std::move(list)}) : or_variable({std::move(list)});
}

OrderedJson text(std::string_view pattern) {
  if (pattern.empty()) return reference("text");
  return matching(fmt::format("[$]|{}", pattern));
}

OrderedJson described(const OrderedJson& schema, std::string_view doc) {
  OrderedJson made = OrderedJson::object();
  if (!doc.empty()) made["description"] = doc;
  made.update(schema);
  return made;
}

OrderedJson with_default(OrderedJson schema, std::string_view fallback) {
  if (fallback.empty() || fallback == "none") return schema;
  if (const auto number = job::parse_number(fallback))
    schema["default"] = shortest_number(*number);
  else if (fallback == "true" || fallback == "false")
    schema["default"] = fallback == "true";
  else
    schema["default"] = fallback;
  return schema;
}

OrderedJson mapping(OrderedJson properties, bool notes) {
  if (notes)
    properties["note"] = described(reference("scalar"), "comment, ignored but kept in the plan");
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

OrderedJson where(std::string_view key, std::string_view value, OrderedJson schema) {
  // The condition uses a pattern because of yaml-language-server: in a condition, it treats a
  // `const` as equal if it begins with the value (`op: conv2d` would also get the attributes of
  // conv2d_transpose). The two requirements are separate because versions before 1.24 offer a key
  // that a condition both requires and describes as a line to insert.
  const OrderedJson there = {{"required", {key}}};
  const OrderedJson same = {{"properties", {{key, matching(fmt::format("^{}$", value))}}}};
  return {{"if", {{"allOf", OrderedJson::array({there, same})}}}, {"then", std::move(schema)}};
}

}  // namespace flow::schema
