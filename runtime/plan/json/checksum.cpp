// The checksum by which the text of a plan or record notices that any byte of it was changed.
#include "runtime/plan/json/checksum.h"

#include <optional>

#include "runtime/base/digest.h"

namespace flow::plan {
namespace {

constexpr std::string_view kBefore = "\n  \"checksum\": \"";

/// Where the digits begin; nothing where the text has none.
std::optional<size_t> digits_in(std::string_view text) {
  const size_t line = text.find(kBefore);
  if (line == text.npos || text.size() - line < kBefore.size() + kNoChecksum.size()) return {};
  return line + kBefore.size();
}

}  // namespace

std::string with_checksum(std::string text) {
  const auto at = digits_in(text);
  if (!at) return text;
  // The checksum is over the text without it; every single changed byte changes it.
  text.replace(*at, kNoChecksum.size(), kNoChecksum);
  return text.replace(*at, kNoChecksum.size(), digest(text));
}

bool has_checksum(std::string_view text) {
  return digits_in(text) && with_checksum(std::string(text)) == text;
}

}  // namespace flow::plan
