// Short names of what was written: digests that tell damage and change, and no forgery.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flow {

inline constexpr uint64_t kFnvOfNothing = 0xCBF29CE484222325;

/// FNV-1a in 64 bits (Fowler, Noll and Vo). `before`: that of what stands before the text.
uint64_t fnv1a64(std::string_view text, uint64_t before = kFnvOfNothing);

/// fnv1a64 as 16 hexadecimal digits.
std::string digest(std::string_view text, uint64_t before = kFnvOfNothing);

}  // namespace flow
