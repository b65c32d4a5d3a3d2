// A search for the first of four bytes, 16 bytes at a time.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <bit>

namespace flow::data {

class ByteFinder {
 public:
  explicit ByteFinder(std::array<char, 4> bytes) : bytes_(bytes) {}

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
  bool contains(char c) const {
    return c == bytes_[0] || c == bytes_[1] || c == bytes_[2] || c == bytes_[3];
  }

#ifdef __SSE2__
  unsigned matches(const char* at) const {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const auto equal = [&](size_t i) { return _mm_cmpeq_epi8(block, _mm_set1_epi8(bytes_[i])); };
    return static_cast<unsigned>(_mm_movemask_epi8(
        _mm_or_si128(_mm_or_si128(equal(0), equal(1)), _mm_or_si128(equal(2), equal(3)))));
  }
#endif

  std::array<char, 4> bytes_;
};

}  // namespace flow::data
