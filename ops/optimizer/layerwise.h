// What the rules have in common whose rate for a variable depends on the whole of it. Beside a Move
// and `exact`, such a rule has
//
//   template <typename T> struct Terms { Pair<T> operator()(T g, T (&values)[kMoved]) const; };
//   template <typename T> Terms<T> terms(double scaled, const UpdateCall& call) const;
//   Pair<double> exact_terms(double g, double scaled, double (&values)[kMoved], call) const;
//   double rate(TwoSums sums, double scaled, double elements, const UpdateCall& call) const;
//
// The squares of the terms are summed over the variable, and the rate follows from both sums, from
// which `at` and `exact` go on. kMovesSlots: the terms move the slots, and the Move the variable
// alone. kWritten: how many arrays a Move writes.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

template <typename T>
struct Pair {
  T first, second;
};

/// Sums of squares over a variable, or a part of it.
struct TwoSums {
  double first = 0, second = 0;

  TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

}  // namespace flow::optimizers
