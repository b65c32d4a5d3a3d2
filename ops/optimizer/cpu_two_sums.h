// Two sums over a variable, which some updates depend on, in lanes that vectorise.
#pragma once

#include <cstdint>

namespace flow::cpu {

inline constexpr int64_t kSumLanes = 16;

/// Two sums over a variable.
struct TwoSums {
  double first = 0, second = 0;

  TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

inline double sum_of(const double (&lanes)[kSumLanes]) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace flow::cpu
