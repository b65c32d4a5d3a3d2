// The data of a tensor that a run keeps to find where two runs diverge: moments, extremes and a
// hash.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/base/host_device.h"

namespace flow {

/// A summary of a tensor in 64 bytes. Sums and extremes are those of the finite elements, in
/// float64. Tensors with equal elements have equal hashes, regardless of the layout, the device and
/// the number of threads. Sums may differ in their last digits between devices.
struct Fingerprint {
  // A constant, because device code cannot call std::numeric_limits.
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  int64_t count = 0;  // number of all elements; 0 if the tensor was not computed
  double sum = 0, absolute = 0, square = 0;
  double least = kInfinity, most = -kInfinity;
  int64_t not_finite = 0;
  uint64_t hash = 0;

  /// Adds elements with other indices.
  FLOW_HOST_DEVICE void merge(const Fingerprint& other) {
    count += other.count;
    sum += other.sum;
    absolute += other.absolute;
    square += other.square;
    least = other.least < least ? other.least : least;
    most = other.most > most ? other.most : most;
    not_finite += other.not_finite;
    hash += other.hash;
  }
  /// Returns true if the elements are the same, except for differences that a 64-bit hash misses.
  bool is_same(const Fingerprint& other) const {
    return count == other.count && hash == other.hash;
  }
};
static_assert(sizeof(Fingerprint) == 64 && std::is_trivially_copyable_v<Fingerprint>);

/// The hash is the wrapping sum of word * key * factor over the 32-bit words of a tensor in C
/// order. An element of 64 bits is two words, and a smaller element is one word. The words form
/// rows: in a 4-D tensor each plane of at least kSmallPlane elements is a row; otherwise kHashKeys
/// words are a row. The key depends on the column modulo kHashKeys. The factor depends on the row,
/// and on how often the row has already used up the keys. Keys and factors are odd, so a change of
/// one word always changes the hash.
inline constexpr int64_t kHashKeys = 1024;
inline constexpr int64_t kSmallPlane = 16;

/// The finalizer of MurmurHash3 (Appleby, 2011), applied to x plus a constant, so that 0 is not
/// mapped to 0.
FLOW_HOST_DEVICE constexpr uint64_t mix_index(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53;
  return x ^ (x >> 33);
}
/// Returns the key of the word in column `index % kHashKeys`.
FLOW_HOST_DEVICE constexpr uint32_t hash_key(int64_t index) {
  return static_cast<uint32_t>(mix_index(static_cast<uint64_t>(index))) | 1;
}
/// Returns the factor of a row's words, starting with column `block * kHashKeys`.
FLOW_HOST_DEVICE constexpr uint64_t hash_factor(int64_t row, int64_t block) {
  return mix_index(~(static_cast<uint64_t>(row) + (static_cast<uint64_t>(block) << 40))) | 1;
}

constexpr std::array<uint32_t, kHashKeys> make_hash_keys() {
  std::array<uint32_t, kHashKeys> keys{};
  for (int64_t i = 0; i < kHashKeys; ++i) keys[static_cast<size_t>(i)] = hash_key(i);
  return keys;
}
inline constexpr std::array<uint32_t, kHashKeys> kHashKeyTable = make_hash_keys();

}  // namespace flow
