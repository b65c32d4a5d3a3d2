// Short names of what was written: digests that tell damage and change, and no forgery.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flow {

/// FNV-1a in 64 bits (Fowler, Noll and Vo).
uint64_t fnv1a64(std::string_view text);

/// fnv1a64 as 16 hexadecimal digits.
std::string digest(std::string_view text);

}  // namespace flow
