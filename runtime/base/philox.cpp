// Draws that are made from Philox blocks. They are computed in float64 on the host, because the
// results of libm and CUDA differ in the last bit.
#include "runtime/base/philox.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "runtime/base/digest.h"

namespace flow {

uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

PhiloxKey philox_key(uint64_t seed, std::string_view name) {
  const uint64_t key = splitmix64(seed) ^ fnv1a64(name);
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

uint64_t dropout_threshold(double rate) {
  return static_cast<uint64_t>(std::nearbyint(rate * 0x1p32));
}

namespace {

/// Returns the block that contains element `i` of the draw.
uint64_t block_of(const Draw& draw, int64_t i) { return static_cast<uint64_t>(draw.first + i) / 4; }

/// Calls take(i, word) for each of the n words of a draw.
template <typename Take>
void for_each_word(const Draw& draw, int64_t n, Take take) {
  const PhiloxKey key = philox_key(draw.seed, draw.name);
  for (int64_t i = 0; i < n; i += 4) {
    const PhiloxBlock block = philox_block(key, draw.step, block_of(draw, i));
    for (int64_t j = 0; j < 4 && i + j < n; ++j) take(i + j, block[static_cast<size_t>(j)]);
  }
}

/// Returns the four normals of a block, by Box and Muller from the word pairs 0, 1 and 2, 3.
std::array<double, 4> normals(const PhiloxBlock& block) {
  std::array<double, 4> z{};
  for (size_t pair = 0; pair < 4; pair += 2) {
    const double u1 = (static_cast<double>(block[pair] >> 8) + 1) * 0x1p-24;
    const double u2 = static_cast<double>(block[pair + 1] >> 8) * 0x1p-24;
    const double radius = std::sqrt(-2.0 * std::log(u1));
    const double angle = 2 * std::numbers::pi * u2;
    z[pair] = radius * std::cos(angle);
    z[pair + 1] = radius * std::sin(angle);
  }
  return z;
}

}  // namespace

void draw_uniform(const Draw& draw, double low, double high, double* out, int64_t n) {
  for_each_word(draw, n, [&](int64_t i, uint32_t word) {
    out[i] = low + (high - low) * (static_cast<double>(word >> 8) * 0x1p-24);
  });
}

void draw_normal(const Draw& draw, double* out, int64_t n) {
  const PhiloxKey key = philox_key(draw.seed, draw.name);
  for (int64_t i = 0; i < n; i += 4) {
    const auto z = normals(philox_block(key, draw.step, block_of(draw, i)));
    for (int64_t j = 0; j < 4 && i + j < n; ++j) out[i + j] = z[static_cast<size_t>(j)];
  }
}

void draw_truncated_normal(const Draw& draw, double* out, int64_t n) {
  constexpr double kBound = 2;
  const PhiloxKey key = philox_key(draw.seed, draw.name);
  draw_normal(draw, out, n);
  for (int64_t i = 0; i < n; ++i)
    for (uint32_t attempt = 1; std::abs(out[i]) >= kBound; ++attempt)
      out[i] = normals(
          philox_block(key, draw.step, block_of(draw, i), attempt))[static_cast<size_t>(i % 4)];
}

void draw_integers(const Draw& draw, int64_t low, int64_t high, int64_t* out, int64_t n) {
  const auto range = static_cast<uint64_t>(high - low);
  for_each_word(draw, n, [&](int64_t i, uint32_t word) {
    out[i] = low + static_cast<int64_t>((word * range) >> 32);
  });
}

void draw_permutation(const Draw& draw, int64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = i;
  const PhiloxKey key = philox_key(draw.seed, draw.name);
  for (int64_t i = n - 1; i > 0; --i) {
    const uint32_t word =
        philox_block(key, draw.step, static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)];
    const auto j = static_cast<int64_t>((word * static_cast<uint64_t>(i + 1)) >> 32);
    std::swap(out[i], out[j]);
  }
}

}  // namespace flow
