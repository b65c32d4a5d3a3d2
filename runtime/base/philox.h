// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11)
// and the draws that are made from it. A draw is a pure function of (seed, name, step, element),
// and of the pass if it is in a loop; there is no state. Device code shares the integer functions,
// which must therefore not use libm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/host_device.h"

namespace flow {

struct PhiloxKey {
  uint32_t low = 0, high = 0;
};

/// Returns the key of a consumer's draws: splitmix64(seed) ^ fnv1a64(name), as two words.
PhiloxKey philox_key(uint64_t seed, std::string_view name);
uint64_t splitmix64(uint64_t x);

/// Four random words. It is not a std::array, which device code cannot index.
struct PhiloxBlock {
  uint32_t words[4];

  FLOW_HOST_DEVICE uint32_t operator[](size_t i) const { return words[i]; }
  /// Returns word i if i is only known at run time. An array index would force the words into
  /// memory.
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

/// Returns the four words of a block.
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

/// Returns block `block` of the draw at `step`: element i uses word i % 4 of block i / 4. For a
/// draw in a loop, `attempt` is the pass.
FLOW_HOST_DEVICE inline PhiloxBlock philox_block(PhiloxKey key, uint32_t step, uint64_t block,
                                                 uint32_t attempt = 0) {
  return philox4x32_10(
      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step, attempt}, key);
}

/// Returns the threshold of dropout, round(rate * 2^32): an element is kept if its word is at least
/// this large.
uint64_t dropout_threshold(double rate);
/// Returns the factor by which dropout multiplies the elements that it keeps.
constexpr double dropout_factor(double rate) { return 1 / (1 - rate); }

/// A draw in float64 on the host. It is filled block by block in O(n).
struct Draw {
  uint64_t seed = 0;
  std::string_view name;
  uint32_t step = 0;
  // The first element, which is a multiple of 4. A part of a draw has the same values as that part
  // of the whole draw.
  int64_t first = 0;
};
void draw_uniform(const Draw& draw, double low, double high, double* out, int64_t n);
void draw_normal(const Draw& draw, double* out, int64_t n);
/// Draws from the standard normal distribution. Elements with |z| >= 2 are drawn again at attempt
/// 1, 2, ...
void draw_truncated_normal(const Draw& draw, double* out, int64_t n);
void draw_integers(const Draw& draw, int64_t low, int64_t high, int64_t* out, int64_t n);
/// Draws the order of n rows by Fisher and Yates, starting at the end. REQUIRES: the draw begins at
/// element 0.
void draw_permutation(const Draw& draw, int64_t* out, int64_t n);

}  // namespace flow
