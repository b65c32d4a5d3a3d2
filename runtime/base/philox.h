// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC'11) and the draws made from it. A draw is a pure function of (seed, name, step, element), and
// of the pass in a loop; no state is kept. Integer functions are shared with device code and must
// stay free of libm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/host_device.h"

namespace flow {

struct PhiloxKey {
  uint32_t low = 0, high = 0;
};

/// The key of a consumer's draws: splitmix64(seed) ^ fnv1a64(name), as words.
PhiloxKey philox_key(uint64_t seed, std::string_view name);
uint64_t splitmix64(uint64_t x);

/// Four words. (Device code cannot index a std::array.)
struct PhiloxBlock {
  uint32_t words[4];

  FLOW_HOST_DEVICE uint32_t operator[](size_t i) const { return words[i]; }
  /// The same where i is known only at run time, which would put the words into memory.
  FLOW_HOST_DEVICE uint32_t word(int64_t i) const {
    uint32_t word = words[0];
    for (int k = 1; k < 4; ++k)
      if (i == k) word = words[k];
    return word;
  }
  const uint32_t* begin() const { return words; }
  const uint32_t* end() const { return words + 4; }
  friend bool operator==(const PhiloxBlock&, const PhiloxBlock&) = default;
};

/// The four words of one block.
FLOW_HOST_DEVICE inline PhiloxBlock philox4x32_10(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key.low, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key.high, static_cast<uint32_t>(p0)};
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return counter;
}

/// Block `block` of the draw at `step`: element i takes word i % 4 of block i / 4. Draws in a loop
/// have their pass as `attempt`.
FLOW_HOST_DEVICE inline PhiloxBlock philox_block(PhiloxKey key, uint32_t step, uint64_t block,
                                                 uint32_t attempt = 0) {
  return philox4x32_10(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step, attempt}, key);
}

/// A dropout entry keeps an element whose word is at least this: round(rate * 2^32).
uint64_t dropout_threshold(double rate);
/// ... and multiplies it by this.
constexpr double dropout_factor(double rate) { return 1 / (1 - rate); }

/// Host-only draws in float64, element by element. Filled by blocks, so O(n).
struct Draw {
  uint64_t seed = 0;
  std::string_view name;
  uint32_t step = 0;
  int64_t first = 0;  // element, a multiple of 4; the parts of a draw are those of the whole
};
void draw_uniform(const Draw& draw, double low, double high, double* out, int64_t n);
void draw_normal(const Draw& draw, double* out, int64_t n);
/// Standard normal, elements with |z| >= 2 drawn again at attempt 1, 2, ...
void draw_truncated_normal(const Draw& draw, double* out, int64_t n);
void draw_integers(const Draw& draw, int64_t low, int64_t high, int64_t* out, int64_t n);
/// The order of n rows: Fisher and Yates from the end. REQUIRES: the draw is whole.
void draw_permutation(const Draw& draw, int64_t* out, int64_t n);

}  // namespace flow
