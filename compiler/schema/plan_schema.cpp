// The schema of plans: a visitor over the fields of their structs.
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/job/text/values.h"
#include "compiler/schema/forms.h"
#include "compiler/schema/schema.h"
#include "runtime/plan/json/fields.h"
#include "runtime/plan/model/named_values.h"

namespace flow {
namespace {

using schema::described, schema::reference, schema::words;

OrderedJson type(std::string_view name) { return {{"type", name}}; }

OrderedJson list_of(OrderedJson item) { return {{"type", "array"}, {"items", std::move(item)}}; }

OrderedJson or_null(OrderedJson schema) { return {{"anyOf", {std::move(schema), type("null")}}}; }

/// Finite numbers, and {"float": "inf"} for the others.
OrderedJson number() {
  OrderedJson others = {{"type", "object"},
                        {"properties", {{"float", {{"enum", {"inf", "-inf", "nan"}}}}}},
                        {"required", OrderedJson::array({"float"})},
                        {"additionalProperties", false}};
  return {{"anyOf", {type("number"), std::move(others)}}};
}

/// Takes the verbs of fields.h and makes an object's schema of them.
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
  void optional(std::string_view key, const std::optional<T>&) {
    properties_[std::string(key)] = of(T{});
  }
  void flag(std::string_view key, bool value) { properties_[std::string(key)] = of(value); }
  template <typename T>
  void some(std::string_view key, const std::vector<T>& list) {
    properties_[std::string(key)] = of(list);
  }
  template <typename T>
  void one_or_more(std::string_view key, const std::vector<T>& list) {
    properties_[std::string(key)] = {{"anyOf", {of(T{}), of(list), type("null")}}};
    required_.push_back(key);
  }
  template <typename T>
  void lines(std::string_view key, const std::vector<T>& list) {
    (*this)(key, list);
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
  template <typename T>
  OrderedJson of(const std::optional<T>&) {
    return or_null(of(T{}));
  }
  template <typename T>
  OrderedJson of(const std::map<std::string, T>&) {
    return {{"type", "object"}, {"additionalProperties", of(T{})}};
  }
  /// An object of one key, that of the alternative.
  template <typename... T>
  requires plan::Spelled<std::variant<T...>> OrderedJson of(const std::variant<T...>&) {
    OrderedJson any = OrderedJson::array();
    const auto add = [&any](OrderedJson alternative) {
      const std::string key(plan::Spelling<std::variant<T...>>::words[any.size()]);
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
