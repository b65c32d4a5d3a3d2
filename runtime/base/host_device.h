// Macros for functions that are compiled for several targets, and small functions that host and
// device share: division that rounds up, the order of elements, and evenly spaced numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

/// Marks functions that device code also calls. They must not use libm, so that host and device
/// round alike.
#ifdef __CUDACC__
#define FLOW_HOST_DEVICE __host__ __device__
#else
#define FLOW_HOST_DEVICE
#endif

/// Marks a function that consists of a loop. It is compiled for AVX-512, for AVX2 and for any
/// x86-64, and the loader selects a version. It is disabled under sanitizers, whose runtime is not
/// initialized when the loader selects.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLOW_VECTORIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FLOW_VECTORIZED
#endif
#endif
#ifndef FLOW_VECTORIZED
#define FLOW_VECTORIZED __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

namespace flow {

/// Returns the number of parts of size `part` that cover n. REQUIRES: n >= 0, part > 0.
template <std::integral T>
FLOW_HOST_DEVICE constexpr T ceil_div(T n, std::type_identity_t<T> part) {
  return (n + part - 1) / part;
}

/// Returns the smallest multiple of `unit` that is at least n. REQUIRES: as for ceil_div.
template <std::integral T>
FLOW_HOST_DEVICE constexpr T round_up(T n, std::type_identity_t<T> unit) {
  return ceil_div(n, unit) * unit;
}

/// Returns true if `value` precedes `best` in the order of the largest (or smallest) elements. A
/// NaN precedes any number, as in NumPy.
template <bool kLargest, typename T>
FLOW_HOST_DEVICE bool precedes(T value, T best) {
  return (kLargest ? value > best : value < best) || (value != value && best == best);
}

template <typename T>
FLOW_HOST_DEVICE bool exceeds(T value, T best) {
  return precedes<true>(value, best);
}

/// An element and its place.
template <typename T>
struct Best {
  T value;
  int64_t place;
};

/// Evenly spaced numbers, which are bit-identical on every device.
struct EvenlySpaced {
  double first, last, distance;

  EvenlySpaced(double from, double to, int64_t count)
      : first(from),
        last(to),
        distance(count > 1 ? (to - from) / static_cast<double>(count - 1) : 0) {}

  /// Returns number i of `count`. It is computed from the nearer end, so that both ends are exact.
  FLOW_HOST_DEVICE double at(int64_t i, int64_t count) const {
    const int64_t left = count - 1 - i;
    return i <= left ? first + static_cast<double>(i) * distance
                     : last - static_cast<double>(left) * distance;
  }
};

}  // namespace flow
