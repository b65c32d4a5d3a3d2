// What functions are compiled for, and small ones that host and device share: division that rounds
// up, the order of elements, evenly spaced numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

/// Marks functions that device code calls, too. They must stay free of libm, so that both round
/// alike.
#ifdef __CUDACC__
#define FLOW_HOST_DEVICE __host__ __device__
#else
#define FLOW_HOST_DEVICE
#endif

/// Before a function that is a loop: compiles it for AVX-512, for AVX2 and for any x86-64; the
/// loader picks. Not under sanitizers, whose run-time is not up yet when the loader asks.
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

/// How many parts of `part` cover n. REQUIRES: n >= 0, part > 0.
template <std::integral T>
FLOW_HOST_DEVICE constexpr T ceil_div(T n, std::type_identity_t<T> part) {
  return (n + part - 1) / part;
}

/// The first multiple of `unit` that is not below n. REQUIRES: as ceil_div.
template <std::integral T>
FLOW_HOST_DEVICE constexpr T round_up(T n, std::type_identity_t<T> unit) {
  return ceil_div(n, unit) * unit;
}

/// Comes `value` before `best` among the largest elements, or the smallest? A NaN comes before any
/// number, as in NumPy.
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

/// Evenly spaced numbers, the same on every device.
struct EvenlySpaced {
  double first, last, distance;

  EvenlySpaced(double from, double to, int64_t count)
      : first(from),
        last(to),
        distance(count > 1 ? (to - from) / static_cast<double>(count - 1) : 0) {}

  /// Number i of `count`, counted from the nearer end: both ends are exact.
  FLOW_HOST_DEVICE double at(int64_t i, int64_t count) const {
    const int64_t left = count - 1 - i;
    return i <= left ? first + static_cast<double>(i) * distance
                     : last - static_cast<double>(left) * distance;
  }
};

}  // namespace flow
