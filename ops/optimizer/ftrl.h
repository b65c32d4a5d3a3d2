// FTRL-Proximal, whose L1 penalty sets elements of variables to exactly 0.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

struct Ftrl : Rule {
  static constexpr int kMoved = 3;
  double beta, l1, ridge;

  explicit Ftrl(const Attributes& attributes)
      : Rule(attributes),
        beta(attributes.get<double>("beta")),
        l1(attributes.get<double>("l1")),
        ridge(attributes.get<double>("l2")) {}

  /// Returns true if one over the rate is not finite, in which case everything stays unchanged.
  template <typename T>
  FLOW_HOST_DEVICE bool idle(const UpdateCall& call) const {
    const T inverse = static_cast<T>(1 / call.rate);
    return !(inverse - inverse == 0);
  }

  template <typename T>
  struct Move {
    T scale, inverse_rate, beta, l1, l2;
    FLOW_INLINE void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T squares = values[1] + scaled * scaled;
      const T root = std::sqrt(squares);
      const T moved =
          values[2] + (scaled - (root - std::sqrt(values[1])) * inverse_rate * values[0]);
      const T pulled = moved > l1 ? moved - l1 : moved < -l1 ? moved + l1 : moved * T{0};
      values[0] = -pulled / ((beta + root) * inverse_rate + l2);
      values[1] = squares;
      values[2] = moved;
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled, const UpdateCall& call) const {
    return {static_cast<T>(scaled), static_cast<T>(1 / call.rate), static_cast<T>(beta),
            static_cast<T>(l1), static_cast<T>(ridge)};
  }
  void exact(double g, double scaled, double (&values)[kMoved], const UpdateCall& call) const {
    auto& [w, n, z] = values;
    g *= scaled;
    const double before = std::sqrt(n);
    n += g * g;
    z += g - (std::sqrt(n) - before) / call.rate * w;
    const double pulled = z > l1 ? z - l1 : z < -l1 ? z + l1 : z * 0;
    w = -pulled / ((beta + std::sqrt(n)) / call.rate + ridge);
  }
};

inline OpSpec ftrl_update() {
  return ops::update_spec(
      "ftrl_update", "One step of FTRL-Proximal (McMahan et al., 2013).",
      "n' = n + (scale g)^2; z = z + scale g - (sqrt(n') - sqrt(n)) / lr w; n = n';\nw = 0 where "
      "|z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2); nothing where 1 / lr is "
      "not finite",
      {"n", "z"},
      {ops::required_magnitude("beta", "added to the root of n"),
       ops::required_magnitude("l1", "L1 strength"), ops::required_magnitude("l2", "L2 strength")},
      15);
}

}  // namespace flow::optimizers
