// Names that become paths of a run directory or a checkpoint.
#include "runtime/base/names.h"

namespace flow {

bool is_safe_name(std::string_view name) {
  bool at_start = true;
  for (const char c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == ':';
    if (!word && (at_start || (c != '.' && c != '/'))) return false;
    at_start = c == '/';
  }
  return !at_start;
}

bool is_safe_key(std::string_view key) {
  // A zero would end the path where the system reads it.
  constexpr std::string_view kForbidden("/\0", 2);
  return !key.empty() && key != "." && key != ".." &&
         key.find_first_of(kForbidden) == std::string_view::npos;
}

}  // namespace flow
