// Digests of text.
#include "runtime/base/digest.h"

#include <fmt/format.h>

namespace flow {

uint64_t fnv1a64(std::string_view text, uint64_t before) {
  uint64_t hash = before;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

std::string digest(std::string_view text, uint64_t before) {
  return fmt::format("{:016x}", fnv1a64(text, before));
}

}  // namespace flow
