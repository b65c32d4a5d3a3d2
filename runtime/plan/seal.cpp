// The checksum by which a plan's text notices that any byte of it was changed.
#include "runtime/plan/seal.h"

#include "runtime/base/digest.h"

namespace flow::plan {
namespace {

constexpr std::string_view kBefore = "{\n  \"checksum\": \"";

}  // namespace

std::string seal(std::string text) {
  if (!text.starts_with(kBefore) || text.size() < kBefore.size() + kUnsealed.size()) return text;
  // The checksum is over the text without it; every single changed byte changes it.
  text.replace(kBefore.size(), kUnsealed.size(), kUnsealed);
  return text.replace(kBefore.size(), kUnsealed.size(), digest(text));
}

bool is_sealed(std::string_view text) {
  return text.starts_with(kBefore) && seal(std::string(text)) == text;
}

}  // namespace flow::plan
