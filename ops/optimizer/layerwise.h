// Common parts of the rules whose rate for a variable depends on the whole variable. In addition to
// a Move and `exact`, a rule of this kind has the following members:
//
//   template <typename T> struct Terms { Pair<T> operator()(T g, T (&values)[kMoved]) const; };
//   template <typename T> Terms<T> terms(double scaled, const UpdateCall& call) const;
//   Pair<double> exact_terms(double g, double scaled, double (&values)[kMoved], call) const;
//   double rate(TwoSums sums, double scaled, double elements, const UpdateCall& call) const;
//
// The squares of the terms are summed over the variable. The rate is computed from both sums and
// passed to `at` and `exact`. kMovesSlots is true if the terms move the slots and the Move moves
// only the variable. kWritten is the number of arrays that a Move writes.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

template <typename T>
struct Pair {
  T first, second;
};

/// Sums of squares over a variable or a part of it.
struct TwoSums {
  double first = 0, second = 0;

  TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

}  // namespace flow::optimizers
