// Errors with a place, errors as exit statuses, and failed checks.
#include "runtime/base/error.h"

namespace flow {
namespace {

/// Replaces NUL characters, which names in files may contain, because what() would end at the first
/// one.
std::string without_nul(std::string text) {
  if (text.find('\0') == text.npos) return text;
  std::string shown;
  for (const char c : text) {
    if (c == '\0')
      shown += "\\x00";
    else
      shown += c;
  }
  return shown;
}

}  // namespace

RunError::RunError(const std::string& message, std::string hint, int exit_status)
    : std::runtime_error(without_nul(message)), hint_(std::move(hint)), exit_status_(exit_status) {}

RunError RunError::at(std::string_view place) const {
  return RunError(fmt::format("{}: {}", place, what()), hint_, exit_status_);
}

RunError RunError::hinting(std::string_view more) const {
  return RunError(what(), fmt::format("{}{}{}", hint_, hint_.empty() ? "" : "; ", more),
                  exit_status_);
}

int exit_status_of(const std::exception& error) {
  if (const auto* run_error = dynamic_cast<const RunError*>(&error))
    return run_error->exit_status();
  return dynamic_cast<const Defect*>(&error) ? kDefect : kRunFailed;
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw Defect(fmt::format("{}:{}: check `{}` failed{}{}", file, line, condition,
                           message.empty() ? "" : ": ", message));
}

}  // namespace flow
