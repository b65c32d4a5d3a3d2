// Optimizers: a record for each type, with the op that updates a variable.
#pragma once

#include <array>
#include <cstdint>
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
      std::tuple{epsilon_field<T>("1e-8"),
                 Field{"bias_correction", &T::bias_correction, "true",
                       "correct m and v for their start at zero"},
                 Field{"amsgrad", &T::amsgrad, "false",
                       "divide by the root of the largest v so far (Reddi et al., 2018)"}});
}

template <typename T>
constexpr auto weight_decay_field(std::string_view fallback = "") {
  return Field{"weight_decay", &T::weight_decay, fallback,
               "weight decay coefficient; multiplied by the learning rate", kNotNegative};
}

/// The field of an optimizer whose `weight_decay` is added to the gradient, as an L2 penalty. Rules
/// declare this with `decays_gradient`. The decay of other optimizers is decoupled from the
/// gradient.
template <typename T>
constexpr auto l2_decay_field() {
  return Field{"weight_decay", &T::weight_decay, "0",
               "L2 weight decay coefficient: adds weight_decay w to the clipped gradient",
               kNotNegative};
}

template <typename T>
constexpr auto decoupled_fields() {
  return std::tuple{
      weight_decay_field<T>("0"),
      Field{"decoupled_weight_decay", &T::decoupled_weight_decay, "true",
            "apply weight decay apart from the gradient; `false`, PyTorch's default: add "
            "weight_decay w to the clipped gradient"}};
}

struct Sgd {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;

  bool decays_gradient() const { return true; }
  std::string_view update_op() const { return momentum == 0 ? "sgd_update" : "momentum_update"; }
  static constexpr auto record() {
    return Record{"sgd", "Stochastic gradient descent, with momentum if `momentum` is above 0.",
                  "g = g + weight_decay w, w -= lr g; with momentum: m = momentum m + g, w -= lr m "
                  "(nesterov: "
                  "lr (g + momentum m))",
                  std::tuple{Field{"momentum", &Sgd::momentum, "0", kMomentumDoc, kShare},
                             Field{"nesterov", &Sgd::nesterov, "false", "use Nesterov momentum"},
                             l2_decay_field<Sgd>()}};
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
  bool bias_correction = true, amsgrad = false;
  double weight_decay = 0;

  bool decays_gradient() const { return true; }
  std::string_view update_op() const { return amsgrad ? "amsgrad_update" : "adam_update"; }
  static constexpr auto record() {
    return Record{
        "adam", "Adam (Kingma and Ba, 2015).",
        "g = g + weight_decay w, m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, w -= "
        "lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon), t = step + 1",
        std::tuple_cat(adam_fields<Adam>(), std::tuple{l2_decay_field<Adam>()})};
  }
};

struct Adamw {
  double beta1 = 0, beta2 = 0, epsilon = 0;
  bool bias_correction = true, amsgrad = false;
  double weight_decay = 0;

  std::string_view update_op() const { return amsgrad ? "amsgrad_update" : "adam_update"; }
  static constexpr auto record() {
    return Record{"adamw", "Adam with decoupled weight decay (Loshchilov and Hutter, 2019).",
                  "as adam, then w -= lr weight_decay w_old",
                  std::tuple_cat(adam_fields<Adamw>(), std::tuple{weight_decay_field<Adamw>()})};
  }
};

struct Rmsprop {
  double decay_rate = 0, epsilon = 0;
  bool epsilon_inside = true, centered = false;
  double momentum = 0, weight_decay = 0;

  bool decays_gradient() const { return true; }
  std::string_view update_op() const {
    if (momentum > 0)
      return centered ? "centered_momentum_rmsprop_update" : "momentum_rmsprop_update";
    return centered ? "centered_rmsprop_update" : "rmsprop_update";
  }
  static constexpr auto record() {
    return Record{
        "rmsprop",
        "RMSprop (Tieleman and Hinton, 2012): divides gradients by the root of their moving mean "
        "square. Write `epsilon_inside: false` for PyTorch's RMSprop; the default is that of Keras "
        "and TensorFlow.",
        "g = g + weight_decay w, ms = decay_rate ms + (1 - decay_rate) g^2 (centered: for ms below "
        "use ms - mg^2, mg = decay_rate mg + (1 - decay_rate) g),\nd = g / sqrt(ms + epsilon) "
        "(epsilon_inside false: g / (sqrt(ms) + epsilon)), w -= lr d; with momentum: m = momentum "
        "m "
        "+ d, w -= lr m",
        std::tuple{
            Field{"decay_rate", &Rmsprop::decay_rate, "0.99", "decay rate of the moving averages",
                  kBelowOne},
            epsilon_field<Rmsprop>("1e-8"),
            Field{"epsilon_inside", &Rmsprop::epsilon_inside, "true",
                  "add epsilon to the mean square, as Keras and TensorFlow do; `false`: to its "
                  "root, as PyTorch does"},
            Field{"centered", &Rmsprop::centered, "false",
                  "divide by the root of the variance instead of the mean square"},
            Field{"momentum", &Rmsprop::momentum, "0", kMomentumDoc, kShare},
            l2_decay_field<Rmsprop>()}};
  }
};

struct Adagrad {
  double epsilon = 0, initial_accumulator_value = 0, weight_decay = 0;

  bool decays_gradient() const { return true; }
  std::string_view update_op() const { return "adagrad_update"; }
  static constexpr auto record() {
    return Record{
        "adagrad",
        "Adagrad (Duchi et al., 2011): divides gradients by the root of the sum of their squares.",
        "g = g + weight_decay w, sum = sum + g^2, w -= lr g / (sqrt(sum) + epsilon)",
        std::tuple{epsilon_field<Adagrad>("1e-10"),
                   Field{"initial_accumulator_value", &Adagrad::initial_accumulator_value, "0",
                         "initial value of the sum", kNotNegative},
                   l2_decay_field<Adagrad>()}};
  }
};

struct Adadelta {
  double decay_rate = 0, epsilon = 0, weight_decay = 0;

  bool decays_gradient() const { return true; }
  std::string_view update_op() const { return "adadelta_update"; }
  static constexpr auto record() {
    return Record{
        "adadelta", "Adadelta (Zeiler, 2012); its learning rate is usually 1.",
        "g = g + weight_decay w, square = decay_rate square + (1 - decay_rate) g^2, d = sqrt(delta "
        "+ epsilon) / sqrt(square + epsilon) g, delta = decay_rate delta + (1 - decay_rate) d^2, w "
        "-= lr d",
        std::tuple{Field{"decay_rate", &Adadelta::decay_rate, "0.9",
                         "decay rate of the moving averages", kBelowOne},
                   epsilon_field<Adadelta>("1e-6"), l2_decay_field<Adadelta>()}};
  }
};

struct Nadam {
  double beta1 = 0, beta2 = 0, epsilon = 0, momentum_decay = 0, weight_decay = 0;
  bool decoupled_weight_decay = true;

  bool decays_gradient() const { return !decoupled_weight_decay; }
  std::string_view update_op() const { return "nadam_update"; }
  static constexpr auto record() {
    return Record{
        "nadam", "Adam with Nesterov momentum (Dozat, 2016).",
        "m, v as in adam, u_t = beta1 (1 - 0.96^(t momentum_decay) / 2), p_t = u_1 ... u_t, w -= "
        "lr "
        "((1 - u_t) / (1 - p_t) g + u_t+1 / (1 - p_t+1) m) / (sqrt(v / (1 - beta2^t)) + epsilon) + "
        "lr weight_decay w",
        std::tuple_cat(beta_fields<Nadam>(),
                       std::tuple{epsilon_field<Nadam>("1e-8"),
                                  Field{"momentum_decay", &Nadam::momentum_decay, "4e-3",
                                        "rate at which the momentum grows from beta1 / 2 to beta1",
                                        kNotNegative}},
                       decoupled_fields<Nadam>())};
  }
};

struct Radam {
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  bool decoupled_weight_decay = true;

  bool decays_gradient() const { return !decoupled_weight_decay; }
  std::string_view update_op() const { return "radam_update"; }
  static constexpr auto record() {
    return Record{
        "radam",
        "Rectified Adam (Liu et al., 2020): Adam whose rate warms up as the variance of the "
        "gradients becomes known.",
        "m, v as in adam, a = 2 / (1 - beta2) - 1, l = a - 2 t beta2^t / (1 - beta2^t),\nr = "
        "sqrt((l - 4) (l - 2) a / ((a - 4) (a - 2) l)) sqrt(1 - beta2^t) / (sqrt(v) + epsilon) "
        "where l > 5, else 1,\nw -= lr m / (1 - beta1^t) r + lr weight_decay w",
        std::tuple_cat(beta_fields<Radam>(), std::tuple{epsilon_field<Radam>("1e-8")},
                       decoupled_fields<Radam>())};
  }
};

struct Lion {
  double beta1 = 0, beta2 = 0, weight_decay = 0;

  std::string_view update_op() const { return "lion_update"; }
  static constexpr auto record() {
    return Record{
        "lion",
        "Lion (Chen et al., 2023): moves by signs. Use a learning rate 3 to 10 times below that of "
        "adamw.",
        "w -= lr sign(beta1 m + (1 - beta1) g) + lr weight_decay w, m = beta2 m + (1 - beta2) g",
        std::tuple{Field{"beta1", &Lion::beta1, "0.9", "share of m in the sign", kBelowOne},
                   Field{"beta2", &Lion::beta2, "0.99",
                         "decay rate of the moving average of gradients", kBelowOne},
                   weight_decay_field<Lion>("0")}};
  }
};

struct Ftrl {
  double beta = 0, l1 = 0, l2 = 0;

  std::string_view update_op() const { return "ftrl_update"; }
  static constexpr auto record() {
    return Record{
        "ftrl",
        "FTRL-Proximal (McMahan et al., 2013): sparse linear models. Steps with a learning rate of "
        "0 change nothing.",
        "z = z + g - (sqrt(n + g^2) - sqrt(n)) / lr w, n = n + g^2, w = 0 where |z| <= l1, else "
        "-(z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2)",
        std::tuple{
            Field{"beta", &Ftrl::beta, "1", "added to the root of the sum of squares", kPositive},
            Field{"l1", &Ftrl::l1, "0", "L1 strength: larger ones give more zeros", kNotNegative},
            Field{"l2", &Ftrl::l2, "0", "L2 strength", kNotNegative}}};
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

struct Adafactor {
  double beta2_decay = 0, epsilon1 = 0, epsilon2 = 0, clip_threshold = 0, weight_decay = 0;

  std::string_view update_op() const { return "adafactor_update"; }
  static constexpr auto record() {
    return Record{
        "adafactor",
        "Adafactor (Shazeer and Stern, 2018), as in PyTorch: keeps mean squares of rows and "
        "columns, and scales updates by the size of the variable.",
        "a = t^beta2_decay, row = row + a (mean of g^2 in the row - row), column likewise,\n"
        "V = row column / max(mean row, epsilon1); without two axes V = V + a (g^2 - V),\n"
        "u = g / max(sqrt(V), epsilon1), |x| = rms(x),\n"
        "w -= lr weight_decay w + min(lr, 1 / sqrt(t)) max(epsilon2, |w|) "
        "u / max(1, |u| / clip_threshold)",
        std::tuple{
            Field{"beta2_decay", &Adafactor::beta2_decay, "-0.8",
                  "exponent of the share that new squares have in their means", Bounds{.max = 0}},
            Field{"epsilon1", &Adafactor::epsilon1, "0",
                  "least root of a mean square to divide by; 0: the distance from 1 to the "
                  "next number of the job's float dtype",
                  kNotNegative},
            Field{"epsilon2", &Adafactor::epsilon2, "1e-3",
                  "least size of a variable to scale updates by", kNotNegative},
            Field{"clip_threshold", &Adafactor::clip_threshold, "1",
                  "root mean square above which updates are scaled down", Bounds{.min = 1}},
            weight_decay_field<Adafactor>("0")}};
  }
};

/// How the learning rate of Muon depends on the shape of a matrix.
enum class MuonRate { kOriginal, kMatchRmsAdamw };

struct Muon {
  double momentum = 0;
  bool nesterov = true;
  int64_t newton_schulz_steps = 0;
  double norm_epsilon = 0;
  MuonRate adjust_learning_rate = MuonRate::kOriginal;
  double weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 0;

  /// Returns the update op of variables that are not matrices.
  std::string_view update_op() const { return "adam_update"; }
  static constexpr auto record() {
    return Record{
        "muon",
        "Muon (Jordan et al., 2024), as in PyTorch: updates matrices by their orthogonalized "
        "momentum, and all other variables by adamw.",
        "m = momentum m + (1 - momentum) g, d = m (nesterov: (1 - momentum) g + momentum m),\n"
        "X = d / max(norm of d, norm_epsilon); newton_schulz_steps times: A = X X^T, X = 3.4445 X "
        "- 4.775 A X + 2.0315 A A X,\n"
        "w -= lr r X + lr weight_decay w, r = sqrt(max(1, rows / columns)) (match_rms_adamw: 0.2 "
        "sqrt(max(rows, columns)))",
        std::tuple{
            Field{"momentum", &Muon::momentum, "0.95",
                  "share of the moving average of gradients to keep", kBelowOne},
            Field{"nesterov", &Muon::nesterov, "true", "use Nesterov momentum"},
            Field{"newton_schulz_steps", &Muon::newton_schulz_steps, "5",
                  "Newton-Schulz iterations", Bounds{.min = 1, .max = 99}},
            Field{"norm_epsilon", &Muon::norm_epsilon, "1e-7",
                  "least norm of a momentum to divide by", Bounds{.min = 1e-37}},
            Field{"adjust_learning_rate", &Muon::adjust_learning_rate, "original",
                  "factor on the learning rate of a matrix, r in the formula: as published, or for "
                  "updates as large as those of adamw"},
            weight_decay_field<Muon>("0.1"),
            Field{"beta1", &Muon::beta1, "0.9", "of adamw: decay rate of the average of gradients",
                  kBelowOne},
            Field{"beta2", &Muon::beta2, "0.999",
                  "of adamw: decay rate of the average of squared gradients", kBelowOne},
            Field{"epsilon", &Muon::epsilon, "1e-8",
                  "of adamw: added to the denominator for numerical stability", kPositive}}};
  }
};

}  // namespace optimizers

template <>
struct EnumNames<optimizers::MuonRate> {
  static constexpr std::array<std::string_view, 2> words = {"original", "match_rms_adamw"};
};

/// A member of a rule that has the name of an attribute of the update op sets that attribute.
using OptimizerRule =
    std::variant<optimizers::Sgd, optimizers::Sgdw, optimizers::Adam, optimizers::Adamw,
                 optimizers::Rmsprop, optimizers::Adagrad, optimizers::Adadelta, optimizers::Nadam,
                 optimizers::Radam, optimizers::Lion, optimizers::Ftrl, optimizers::Lars,
                 optimizers::Lamb, optimizers::Adafactor, optimizers::Muon>;

/// Wraps an optimizer in cycles of several steps.
struct Lookahead {
  int64_t steps = 1;
  double alpha = 1;  // the fraction of the way from the start of a cycle to its end that is kept
};

}  // namespace flow::plan
