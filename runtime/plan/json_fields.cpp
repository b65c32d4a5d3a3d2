// Strict reading of JSON objects.
#include "runtime/plan/json_fields.h"

#include <fmt/format.h>

#include <limits>

#include "runtime/base/error.h"

namespace flow::plan {

Fields::Fields(const Json& object, std::string file, std::string place)
    : object_(object), file_(std::move(file)), place_(std::move(place)) {
  if (!object_.is_object()) fail("not an object");
}

void Fields::fail(const std::string& what) const {
  throw RequestError(fmt::format("{}: {}: {}", file_, place_, what),
                     "this is no plan that flowc wrote; build it again");
}

const Json& Fields::at(const char* key) {
  const auto found = object_.find(key);
  if (found == object_.end()) fail(fmt::format("no `{}`", key));
  asked_.insert(key);
  return *found;
}

void Fields::done() const {
  for (const auto& [key, value] : object_.items())
    if (!asked_.contains(key)) fail(fmt::format("an unknown key `{}`", key));
}

namespace {

/// The value of a JSON integer; nothing for other types and for what does not fit.
std::optional<int64_t> integer_of(const Json& json) {
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  if (!json.is_number_integer()) return std::nullopt;
  return json.get<int64_t>();
}

}  // namespace

int64_t Fields::integer(const char* key) {
  const auto value = integer_of(at(key));
  if (!value) fail(fmt::format("`{}` is no integer", key));
  return *value;
}

uint64_t Fields::natural(const char* key) {
  const Json& json = at(key);
  if (!json.is_number_unsigned()) fail(fmt::format("`{}` is no natural number", key));
  return json.get<uint64_t>();
}

double Fields::number(const char* key) {
  const Json& json = at(key);
  if (!json.is_number()) fail(fmt::format("`{}` is no number", key));
  return json.get<double>();
}

bool Fields::boolean(const char* key) {
  const Json& json = at(key);
  if (!json.is_boolean()) fail(fmt::format("`{}` is neither true nor false", key));
  return json.get<bool>();
}

std::string Fields::text(const char* key) {
  const Json& json = at(key);
  if (!json.is_string()) fail(fmt::format("`{}` is no text", key));
  return json.get<std::string>();
}

const Json& Fields::list(const char* key) {
  const Json& json = at(key);
  if (!json.is_array()) fail(fmt::format("`{}` is no list", key));
  return json;
}

std::vector<int64_t> Fields::integers(const char* key) {
  std::vector<int64_t> values;
  for (const Json& item : list(key)) {
    const auto value = integer_of(item);
    if (!value) fail(fmt::format("`{}` holds something that is no integer", key));
    values.push_back(*value);
  }
  return values;
}

std::vector<double> Fields::numbers(const char* key) {
  std::vector<double> values;
  for (const Json& item : list(key)) {
    if (!item.is_number()) fail(fmt::format("`{}` holds something that is no number", key));
    values.push_back(item.get<double>());
  }
  return values;
}

std::vector<std::string> Fields::texts(const char* key) {
  std::vector<std::string> values;
  for (const Json& item : list(key)) {
    if (!item.is_string()) fail(fmt::format("`{}` holds something that is no text", key));
    values.push_back(item.get<std::string>());
  }
  return values;
}

std::map<std::string, double> Fields::number_map(const char* key) {
  const Json& json = at(key);
  if (!json.is_object()) fail(fmt::format("`{}` is no object", key));
  std::map<std::string, double> values;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number()) fail(fmt::format("`{}.{}` is no number", key, name));
    values[name] = value.get<double>();
  }
  return values;
}

}  // namespace flow::plan
