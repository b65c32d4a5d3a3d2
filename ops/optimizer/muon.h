// Muon: the direction of a matrix, the polynomials that make it orthogonal, and its update. The
// products between these steps are matmuls.
#pragma once

#include "ops/optimizer/rule.h"

namespace flow::optimizers {

void infer_direction(ops::Call& call);
void infer_polynomial(ops::Call& call);

/// Moves the momentum of a matrix and computes its direction.
struct MuonDirection : Rule {
  double momentum;
  bool nesterov;

  explicit MuonDirection(const Attributes& attributes)
      : Rule(attributes),
        momentum(attributes.get<double>("momentum")),
        nesterov(attributes.get<bool>("nesterov")) {}

  template <typename T>
  struct Move {
    T scale, momentum, rest;
    bool nesterov;
    FLOW_INLINE T operator()(T g, T& mean) const {
      const T part = rest * (scale * g);
      mean = momentum * mean + part;
      return nesterov ? momentum * mean + part : mean;
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double scaled) const {
    return {static_cast<T>(scaled), static_cast<T>(momentum), static_cast<T>(1 - momentum),
            nesterov};
  }
  double exact(double g, double scaled, double& mean) const {
    const double part = (1 - momentum) * scaled * g;
    mean = momentum * mean + part;
    return nesterov ? momentum * mean + part : mean;
  }
};

inline OpSpec muon_direction() {
  return {.name = "muon_direction",
          .doc = "Moves the momentum of Muon (Jordan et al., 2024).",
          .formula =
              "m = momentum m + (1 - momentum) scale g; direction = m (nesterov: (1 - momentum) "
              "scale g + momentum m)",
          .operands = {{"gradient", "gradient of the summed loss"},
                       {"momentum", "optimizer state, same shape as the gradient"},
                       ops::gradient_factor()},
          .attributes = {ops::gradient_scale(),
                         ops::required_fraction("momentum", "momentum coefficient"),
                         {"nesterov", ops::AttributeType::kBool, "true", "use Nesterov momentum"}},
          .results = {{"direction"}, {.name = "momentum", .updates = size_t{1}}},
          .infer = infer_direction,
          .for_updates = true,
          .flops = {6},
          .internal = true};
}

inline OpSpec muon_polynomial() {
  return {.name = "muon_polynomial",
          .doc = "Matrix polynomial of a Newton-Schulz iteration.",
          .formula = "a I + b A + c A^2",
          .operands = {{"gram", "A, a square matrix"}, {"square", "A^2, of the same shape"}},
          .attributes = {ops::required_number("a", "coefficient of the identity"),
                         ops::required_number("b", "coefficient of A"),
                         ops::required_number("c", "coefficient of A^2")},
          .infer = infer_polynomial,
          .for_updates = true,
          .flops = {3},
          .internal = true};
}

/// Moves a matrix along its direction. The scale applies to the direction. The factor only
/// determines whether there is an update.
struct Muon : Rule {
  static constexpr int kMoved = 1;
  double weight_decay;

  explicit Muon(const Attributes& attributes)
      : Rule(attributes), weight_decay(attributes.get<double>("weight_decay")) {}

  template <typename T>
  struct Move {
    T negative_rate, decay;
    FLOW_INLINE void operator()(T direction, T (&values)[kMoved]) const {
      values[0] = values[0] + (negative_rate * direction + decay * values[0]);
    }
  };
  template <typename T>
  FLOW_HOST_DEVICE Move<T> at(double, const UpdateCall& call) const {
    return {static_cast<T>(-call.rate * scale), decay_of<T>(call, weight_decay)};
  }
  void exact(double direction, double, double (&values)[kMoved], const UpdateCall& call) const {
    double& w = values[0];
    w = w - call.rate * scale * direction - call.rate * weight_decay * w;
  }
};

inline OpSpec muon_update() {
  return {
      .name = "muon_update",
      .doc = "One step of Muon along an orthogonal direction.",
      .formula = "w = w - lr scale d - lr weight_decay w",
      .operands = {{"direction", "d, orthogonal"},
                   {"variable", "same shape as the direction"},
                   ops::optional_floats("factor", "a scalar; NaN: the variable stays as it is")},
      .attributes = {{"scale", ops::AttributeType::kNumber, "1", "factor on the direction"},
                     ops::rate_scale(),
                     ops::weight_decay()},
      .results = ops::updated_with({}),
      .infer = ops::infer_update<0>,
      .flops = {4},
      .internal = true};
}

}  // namespace flow::optimizers
