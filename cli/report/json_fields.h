// Fields of JSON that another program may have written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/plan/json/json.h"

namespace flow::cli::report {

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

}  // namespace flow::cli::report
