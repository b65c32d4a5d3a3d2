// Sixteen floats, or as many integers, as one value: GCC's vector extension, which the compiler
// maps to whatever registers the target of the enclosing function has.
#pragma once

#include <cstdint>
#include <cstring>

namespace flow::cpu {

inline constexpr int64_t kLanes = 16;

using FloatLanes [[gnu::vector_size(64)]] = float;
using IntLanes [[gnu::vector_size(64)]] = int32_t;
using ByteLanes [[gnu::vector_size(16)]] = uint8_t;

// By reference, since passing a vector by value would differ between instruction sets.

template <typename Lanes, typename T>
[[gnu::always_inline]] inline void load(Lanes& lanes, const T* from) {
  std::memcpy(&lanes, from, sizeof lanes);
}

template <typename Lanes, typename T>
[[gnu::always_inline]] inline void store(T* to, const Lanes& lanes) {
  std::memcpy(to, &lanes, sizeof lanes);
}

}  // namespace flow::cpu
