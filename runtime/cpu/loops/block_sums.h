// Sums over adjacent elements inside loops that are compiled for several instruction sets.
#pragma once

#include <algorithm>
#include <cstdint>

namespace flow::cpu {

inline constexpr int64_t kSumBlock = 512;  // the number of elements that are added in float

/// Returns the sum of `parts`, added in pairs.
template <int kParts, typename Sum>
[[gnu::always_inline]] inline Sum sum_of_parts(Sum (&parts)[kParts]) {
  for (int half = kParts / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

/// Returns the sum of kParts terms starting with term(first), added in pairs.
template <int kParts, typename Sum, typename Term>
[[gnu::always_inline]] inline Sum sum_of_few(int64_t first, Term term) {
  Sum parts[kParts];
#pragma omp simd
  for (int i = 0; i < kParts; ++i) parts[i] = term(first + i);
  return sum_of_parts(parts);
}

/// Returns the sum of term(i) for i < n, in an order that does not depend on the width of the CPU's
/// vectors, as that of a reduction by the compiler does. It is computed in 16 partial sums, then
/// from 8 and 4 of the remaining terms, and then from up to 3 terms.
template <typename Sum, typename Term>
[[gnu::always_inline]] inline Sum sum_of_terms(int64_t n, Term term) {
  constexpr int kParts = 16;  // floats of the widest vectors
  Sum sum = 0;
  int64_t next = 0;
  if (n >= kParts) {
    Sum parts[kParts] = {};
    for (; next + kParts <= n; next += kParts) {
#pragma omp simd
      for (int i = 0; i < kParts; ++i) parts[i] += term(next + i);
    }
    sum = sum_of_parts(parts);
  }
  if (n & 8) {
    sum += sum_of_few<8, Sum>(next, term);
    next += 8;
  }
  if (n & 4) {
    sum += sum_of_few<4, Sum>(next, term);
    next += 4;
  }
  for (; next < n; ++next) sum += term(next);
  return sum;
}

/// Adds the sum of term(i) for i < n to `sum`: within a block in float, and across blocks in
/// float64.
template <typename Term>
[[gnu::always_inline]] inline void add_terms(int64_t n, double& sum, Term term) {
  for (int64_t first = 0; first < n; first += kSumBlock) {
    const int64_t block = std::min(n - first, kSumBlock);
    const auto part = sum_of_terms<float>(block, [&](int64_t i) { return term(first + i); });
    sum += static_cast<double>(part);
  }
}

}  // namespace flow::cpu
