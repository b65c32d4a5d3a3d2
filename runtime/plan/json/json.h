// JSON: the only access to nlohmann/json, how numbers and strings are written, how a file is
// parsed, and the checksum of a text.
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

/// Returns the shortest text that reads back as the same double. It contains a `.` or an exponent,
/// so that it is not taken for an integer. JSON has no numbers for non-finite values; they are
/// written as an object: {"float":"-inf"}.
std::string json_number(double value);

/// Returns the text in quotes, escaped. Throws RequestError if it is not UTF-8.
std::string json_string(std::string_view text);

/// Parses a file that contains one JSON value. Throws RequestError with `path` and the place if the
/// text is not JSON, a key occurs twice in an object, or values are nested too deeply.
Json parse_json(std::string_view text, const std::string& path);
/// Parses the file of another program. Throws RunError instead of RequestError, because the request
/// is not at fault if such a file is damaged.
Json parse_foreign_json(std::string_view text, const std::string& path);

// The checksum of the text of a plan or record shows whether any byte of the text was changed.

/// The placeholder for the checksum until it is computed.
inline constexpr std::string_view kNoChecksum = "0000000000000000";

/// Writes the checksum of the whole text into its line `  "checksum": "<16 hex digits>",`. Returns
/// a text without that line unchanged.
std::string with_checksum(std::string text);

/// Returns true if the text contains the checksum that `with_checksum` writes.
bool has_checksum(std::string_view text);

// The following functions read fields that another program may have written. They return an empty
// value for a field that is missing or has another type.

/// Returns the string with this key, or an empty string if there is none.
inline std::string text_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

inline std::optional<int64_t> integer_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return {};
  return found->get<int64_t>();
}

/// Returns the strings of a list, or the only string.
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

/// Returns the strings of an object, by their keys.
inline std::map<std::string, std::string> named_texts_in(const Json& json, const char* key) {
  std::map<std::string, std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return texts;
  for (const auto& [name, text] : found->items())
    if (text.is_string()) texts.emplace(name, text.get<std::string>());
  return texts;
}

}  // namespace flow::plan
