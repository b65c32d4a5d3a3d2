// Updates of gradients that their own history or their sign scales, for many variables at once.
// They round as the CPU's kernels do.
#include <cmath>

#include "ops/optimizer/cuda_update.cuh"
#include "runtime/base/optimizer_math.h"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

struct AdagradRule {
  static constexpr int kMoved = 2;
  double scale, epsilon;

  explicit AdagradRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        epsilon(attribute<double>(request, "epsilon")) {}

  template <typename T>
  struct Move {
    T scale, negative_rate, epsilon;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T squares = values[1] + scaled * scaled;
      values[0] = values[0] + negative_rate * scaled / (std::sqrt(squares) + epsilon);
      values[1] = squares;
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    return {static_cast<T>(scaled), static_cast<T>(-call.learning_rate), static_cast<T>(epsilon)};
  }
};

struct AdadeltaRule {
  static constexpr int kMoved = 3;
  double scale, decay, epsilon;

  explicit AdadeltaRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        decay(attribute<double>(request, "decay_rate")),
        epsilon(attribute<double>(request, "epsilon")) {}

  template <typename T>
  struct Move {
    T scale, decay, rest, negative_rate, epsilon;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T mean = rest * (scaled * scaled) + decay * values[1];
      const T moved = std::sqrt(values[2] + epsilon) / std::sqrt(mean + epsilon) * scaled;
      values[0] = values[0] + negative_rate * moved;
      values[1] = mean;
      values[2] = rest * (moved * moved) + decay * values[2];
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    return {static_cast<T>(scaled), static_cast<T>(decay), static_cast<T>(1 - decay),
            static_cast<T>(-call.learning_rate), static_cast<T>(epsilon)};
  }
};

struct NadamRule : MeansRule {
  double growth;

  explicit NadamRule(const Request& request)
      : MeansRule(request), growth(std::pow(0.96, attribute<double>(request, "momentum_decay"))) {}

  template <typename T>
  struct Move {
    Means<T> means;
    T gradient_rate, mean_rate;  // negative
    T correction, epsilon, decay;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = means.move(g, values);
      const T root = correction * std::sqrt(values[2]) + epsilon;
      values[0] =
          values[0] + ((gradient_rate * scaled + mean_rate * values[1]) / root + decay * values[0]);
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    const double rate = call.learning_rate;
    const NadamFactors factors = nadam_factors(beta1, growth, call.step);
    return {means<T>(scaled),
            static_cast<T>(-rate * factors.gradient),
            static_cast<T>(-rate * factors.mean),
            static_cast<T>(1 / std::sqrt(gathered(beta2, true, call.step))),
            static_cast<T>(epsilon),
            static_cast<T>(-rate * weight_decay)};
  }
};

struct RadamRule : MeansRule {
  using MeansRule::MeansRule;

  template <typename T>
  struct Move {
    Means<T> means;
    T negative_rate, epsilon, decay;
    bool rectified;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      means.move(g, values);
      T moved = negative_rate * values[1];
      if (rectified) moved = moved / (std::sqrt(values[2]) + epsilon);
      values[0] = values[0] + (moved + decay * values[0]);
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    const double factor = rectification(beta2, call.step);
    double rate = call.learning_rate / gathered(beta1, true, call.step);
    if (factor > 0) rate *= factor * std::sqrt(gathered(beta2, true, call.step));
    return {means<T>(scaled), static_cast<T>(-rate), static_cast<T>(epsilon),
            static_cast<T>(-call.learning_rate * weight_decay), factor > 0};
  }
};

struct LionRule {
  static constexpr int kMoved = 2;
  double scale, beta1, beta2, weight_decay;

  explicit LionRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        beta1(attribute<double>(request, "beta1")),
        beta2(attribute<double>(request, "beta2")),
        weight_decay(attribute<double>(request, "weight_decay")) {}

  template <typename T>
  struct Move {
    T scale, beta1, rest1, beta2, rest2;
    T negative_rate, decay;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T mixed = beta1 * values[1] + rest1 * scaled;
      const T direction = mixed > 0 ? T{1} : mixed < 0 ? T{-1} : mixed;  // NaN stays
      values[0] = values[0] + (negative_rate * direction + decay * values[0]);
      values[1] = beta2 * values[1] + rest2 * scaled;
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    return {static_cast<T>(scaled),
            static_cast<T>(beta1),
            static_cast<T>(1 - beta1),
            static_cast<T>(beta2),
            static_cast<T>(1 - beta2),
            static_cast<T>(-call.learning_rate),
            static_cast<T>(-call.learning_rate * weight_decay)};
  }
};

struct FtrlRule {
  static constexpr int kMoved = 3;
  double scale, beta, l1, l2;

  explicit FtrlRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        beta(attribute<double>(request, "beta")),
        l1(attribute<double>(request, "l1")),
        l2(attribute<double>(request, "l2")) {}

  template <typename T>
  struct Move {
    T scale, inverse_rate, beta, l1, l2;
    bool moves;  // one over the rate is finite
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      if (!moves) return;
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
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    const T inverse = static_cast<T>(1 / call.learning_rate);
    return {static_cast<T>(scaled), inverse,
            static_cast<T>(beta),   static_cast<T>(l1),
            static_cast<T>(l2),     inverse - inverse == 0};
  }
};

Updates prepare_adagrad_update(std::span<const Request> requests) {
  return updates_by<AdagradRule>("adagrad_update", requests);
}

Kernel prepare_sparse_adagrad_update(const Request& request) {
  return sparse_update_by<AdagradRule>("sparse_adagrad_update", request);
}

Updates prepare_adadelta_update(std::span<const Request> requests) {
  return updates_by<AdadeltaRule>("adadelta_update", requests);
}

Updates prepare_nadam_update(std::span<const Request> requests) {
  return updates_by<NadamRule>("nadam_update", requests);
}

Updates prepare_radam_update(std::span<const Request> requests) {
  return updates_by<RadamRule>("radam_update", requests);
}

Updates prepare_lion_update(std::span<const Request> requests) {
  return updates_by<LionRule>("lion_update", requests);
}

Updates prepare_ftrl_update(std::span<const Request> requests) {
  return updates_by<FtrlRule>("ftrl_update", requests);
}

}  // namespace

std::span<const KernelEntry> kernels::adaptive_updates() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "adagrad_update", .prepare_updates = prepare_adagrad_update},
      {"sparse_adagrad_update", prepare_sparse_adagrad_update},
      {.op = "adadelta_update", .prepare_updates = prepare_adadelta_update},
      {.op = "nadam_update", .prepare_updates = prepare_nadam_update},
      {.op = "radam_update", .prepare_updates = prepare_radam_update},
      {.op = "lion_update", .prepare_updates = prepare_lion_update},
      {.op = "ftrl_update", .prepare_updates = prepare_ftrl_update},
  };
  return kKernels;
}

}  // namespace flow::cuda
