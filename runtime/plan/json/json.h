// JSON: the one door to nlohmann/json, how numbers and strings are written, how a file is parsed,
// and the checksum of a text.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow {

using Json = nlohmann::json;  // sorted keys
using OrderedJson =
    nlohmann::ordered_json;  // keys in the order of insertion, for events and records

}  // namespace flow

namespace flow::plan {

/// The shortest text that reads back as the same double, with a `.` or an exponent, so that it is
/// not taken for an integer. JSON has no numbers for what is not finite: {"float":"-inf"}.
std::string json_number(double value);

/// The text in quotes, escaped. RequestError when it is not UTF-8.
std::string json_string(std::string_view text);

/// A file's one JSON value. RequestError names `path` and the place when it is not JSON, a key
/// occurs twice in an object, or values are nested too deeply.
Json parse_json(std::string_view text, const std::string& path);
/// The same of a file of another program, whose damage is not the request's fault: RunError.
Json parse_foreign_json(std::string_view text, const std::string& path);

// The checksum of the text of a plan or record shows whether any byte of it was changed.

/// What stands for the checksum until the text has one.
inline constexpr std::string_view kNoChecksum = "0000000000000000";

/// Writes the checksum of the whole text into its line `  "checksum": "<16 hex digits>",`.
/// A text without that line comes back as it was.
std::string with_checksum(std::string text);

/// Does the text carry the checksum that `with_checksum` gives it?
bool has_checksum(std::string_view text);

// The next ones read fields that another program may have written: what is missing or of another
// type is empty.

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
