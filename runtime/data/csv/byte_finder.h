// A search for the first of some bytes, 16 bytes at a time.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace flow::data {

/// Finds the first of some bytes.
template <size_t kCount>
class ByteFinder {
 public:
  explicit ByteFinder(const std::array<char, kCount>& bytes) {
    for (size_t i = 0; i < kCount; ++i) blocks_[i].fill(bytes[i]);
  }

  /// Returns the first address from `at` on with one of the bytes, or `end`.
  const char* find(const char* at, const char* end) const {
#ifdef __SSE2__
    for (; end - at >= 16; at += 16)
      if (const unsigned found = matches(at); found != 0) return at + std::countr_zero(found);
#endif
    while (at != end && !contains(*at)) ++at;
    return at;
  }

 private:
  using Block = std::array<char, 16>;

  bool contains(char c) const {
    return std::ranges::any_of(blocks_, [c](const Block& block) { return block[0] == c; });
  }

#ifdef __SSE2__
  static __m128i load(const char* at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  }
  /// Returns a bit for each of 16 bytes.
  unsigned matches(const char* at) const {
    const __m128i bytes = load(at);
    __m128i found = _mm_setzero_si128();
    for (const Block& block : blocks_)
      found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, load(block.data())));
    return static_cast<unsigned>(_mm_movemask_epi8(found));
  }
#endif

  std::array<Block, kCount> blocks_;
};

}  // namespace flow::data
