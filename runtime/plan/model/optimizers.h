// Optimizers: a record for each type, with the op that updates a variable.
#pragma once

#include <string_view>
#include <tuple>
#include <variant>

#include "runtime/plan/model/record.h"

namespace flow::plan {
namespace optimizers {

inline constexpr Bounds kShare{.min = 0, .max = 1}, kBelowOne{.min = 0, .below = 1};

inline constexpr std::string_view kMomentumDoc =
    "momentum coefficient: fraction of the last update to keep";

template <typename T>
constexpr auto epsilon_field(std::string_view fallback) {
  return Field{"epsilon", &T::epsilon, fallback, "added to the denominator for numerical stability",
               kPositive};
}

template <typename T>
constexpr auto beta_fields() {
  return std::tuple{
      Field{"beta1", &T::beta1, "0.9", "decay rate of the moving average of gradients", kBelowOne},
      Field{"beta2", &T::beta2, "0.999", "decay rate of the moving average of squared gradients",
            kBelowOne}};
}

template <typename T>
constexpr auto adam_fields() {
  return std::tuple_cat(
      beta_fields<T>(),
      std::tuple{epsilon_field<T>("1e-8"), Field{"bias_correction", &T::bias_correction, "true",
                                                 "correct m and v for their start at zero"}});
}

template <typename T>
constexpr auto weight_decay_field(std::string_view fallback = "") {
  return Field{"weight_decay", &T::weight_decay, fallback,
               "weight decay coefficient; multiplied by the learning rate", kNotNegative};
}

struct Sgd {
  double momentum = 0;
  bool nesterov = false;

  std::string_view update_op() const { return momentum == 0 ? "sgd_update" : "momentum_update"; }
  static constexpr auto record() {
    return Record{
        "sgd", "Stochastic gradient descent, with momentum if `momentum` is above 0.",
        "w -= lr g; with momentum: m = momentum m + g, w -= lr m (nesterov: lr (g + momentum m))",
        std::tuple{Field{"momentum", &Sgd::momentum, "0", kMomentumDoc, kShare},
                   Field{"nesterov", &Sgd::nesterov, "false", "use Nesterov momentum"}}};
  }
};

struct Sgdw {
  double momentum = 0, weight_decay = 0;

  std::string_view update_op() const { return "momentum_update"; }
  static constexpr auto record() {
    return Record{"sgdw",
                  "SGD with momentum and decoupled weight decay (Loshchilov and Hutter, 2019).",
                  "m = momentum m + g, w -= lr m + lr weight_decay w",
                  std::tuple{Field{"momentum", &Sgdw::momentum, "0.9", kMomentumDoc, kShare},
                             weight_decay_field<Sgdw>()}};
  }
};

struct Adam {
  double beta1 = 0, beta2 = 0, epsilon = 0;
  bool bias_correction = true;

  std::string_view update_op() const { return "adam_update"; }
  static constexpr auto record() {
    return Record{
        "adam", "Adam (Kingma and Ba, 2015).",
        "m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, w -= lr (m / (1 - beta1^t)) / "
        "(sqrt(v / (1 - beta2^t)) + epsilon), t = step + 1",
        adam_fields<Adam>()};
  }
};

struct Adamw {
  double beta1 = 0, beta2 = 0, epsilon = 0;
  bool bias_correction = true;
  double weight_decay = 0;

  std::string_view update_op() const { return "adam_update"; }
  static constexpr auto record() {
    return Record{"adamw", "Adam with decoupled weight decay (Loshchilov and Hutter, 2019).",
                  "as adam, then w -= lr weight_decay w_old",
                  std::tuple_cat(adam_fields<Adamw>(), std::tuple{weight_decay_field<Adamw>()})};
  }
};

struct Rmsprop {
  double decay_rate = 0, epsilon = 0;
  bool centered = false;

  std::string_view update_op() const {
    return centered ? "centered_rmsprop_update" : "rmsprop_update";
  }
  static constexpr auto record() {
    return Record{
        "rmsprop",
        "RMSprop (Tieleman and Hinton, 2012): divides gradients by the root of their moving mean "
        "square.",
        "ms = decay_rate ms + (1 - decay_rate) g^2, w -= lr g / sqrt(ms + epsilon) (centered: ms - "
        "mg^2, mg = decay_rate mg + (1 - decay_rate) g)",
        std::tuple{Field{"decay_rate", &Rmsprop::decay_rate, "0.99",
                         "decay rate of the moving averages", kBelowOne},
                   epsilon_field<Rmsprop>("1e-8"),
                   Field{"centered", &Rmsprop::centered, "false",
                         "divide by the root of the variance instead of the mean square"}}};
  }
};

struct Lars {
  double momentum_beta = 0, epsilon = 0, lars_coefficient = 0, weight_decay = 0;

  std::string_view update_op() const { return "lars_update"; }
  static constexpr auto record() {
    return Record{
        "lars",
        "LARS (You et al., 2017): momentum with a learning rate per variable, from its "
        "weight-to-gradient norm ratio.",
        "r = lr lars_coefficient |w| / (|g| + weight_decay |w| + epsilon), lr where a norm is 0, m "
        "= momentum_beta m - r (g + weight_decay w), w += m, |x| = rms(x)",
        std::tuple{Field{"momentum_beta", &Lars::momentum_beta, "0.9", kMomentumDoc, kShare},
                   epsilon_field<Lars>("1e-9"),
                   Field{"lars_coefficient", &Lars::lars_coefficient, "1e-4",
                         "trust coefficient on the norm ratio", kNotNegative},
                   weight_decay_field<Lars>("0")}};
  }
};

struct Lamb {
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;

  std::string_view update_op() const { return "lamb_update"; }
  static constexpr auto record() {
    return Record{
        "lamb",
        "LAMB (You et al., 2020): Adam with a learning rate per variable, from its "
        "weight-to-update norm ratio.",
        "a = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay w, w -= lr "
        "(|w| / |a|) a, lr a where a norm is 0",
        std::tuple_cat(beta_fields<Lamb>(),
                       std::tuple{epsilon_field<Lamb>("1e-6"), weight_decay_field<Lamb>("0")})};
  }
};

}  // namespace optimizers

/// Members that the update op has as attributes, by name, are its attributes.
using OptimizerRule =
    std::variant<optimizers::Sgd, optimizers::Sgdw, optimizers::Adam, optimizers::Adamw,
                 optimizers::Rmsprop, optimizers::Lars, optimizers::Lamb>;

}  // namespace flow::plan
