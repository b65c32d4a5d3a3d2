// Sums over adjacent elements, inside loops that are compiled for several instruction sets.
#pragma once

#include <algorithm>
#include <cstdint>

namespace flow::cpu {

inline constexpr int64_t kSumBlock = 512;  // elements that are added in float

/// Adds the sum of term(i), i < n, to `sum`: in float over a block at a time, then float64.
template <typename Term>
[[gnu::always_inline]] inline void add_terms(int64_t n, double& sum, Term term) {
  for (int64_t first = 0; first < n; first += kSumBlock) {
    const int64_t end = std::min(n, first + kSumBlock);
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t i = first; i < end; ++i) part += term(i);
    sum += static_cast<double>(part);
  }
}

}  // namespace flow::cpu
