// Fields of JSON that another program may have written: what is missing or of another type is
// empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/json/json.h"

namespace flow::plan {

/// Empty where `json` has no text of that name.
inline std::string text_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

inline std::optional<int64_t> integer_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return {};
  return found->get<int64_t>();
}

/// The texts in a list, or the only one.
inline std::vector<std::string> texts_in(const Json& json, const char* key) {
  std::vector<std::string> texts;
  const auto found = json.find(key);
  if (found == json.end()) return texts;
  if (found->is_string()) texts.push_back(found->get<std::string>());
  if (!found->is_array()) return texts;
  for (const Json& each : *found)
    if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

/// The texts of an object, by their names.
inline std::map<std::string, std::string> named_texts_in(const Json& json, const char* key) {
  std::map<std::string, std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return texts;
  for (const auto& [name, text] : found->items())
    if (text.is_string()) texts.emplace(name, text.get<std::string>());
  return texts;
}

}  // namespace flow::plan
