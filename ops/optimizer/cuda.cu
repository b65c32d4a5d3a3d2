// The optimizers' updates: one pass over the gradients of many variables and what they move. They
// round as the CPU's kernels do.
#include <cmath>

#include "ops/optimizer/cuda_update.cuh"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

struct SgdRule {
  static constexpr int kMoved = 1;
  double scale;

  explicit SgdRule(const Request& request) : scale(attribute<double>(request, "scale")) {}

  /// w += a * g, the product rounded before the sum.
  template <typename T>
  struct Move {
    T a;
    __device__ void operator()(T g, T (&values)[kMoved]) const { values[0] = values[0] + a * g; }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    return {static_cast<T>(-call.learning_rate * scaled)};
  }
};

struct MomentumRule {
  static constexpr int kMoved = 2;
  double scale, momentum, weight_decay;
  bool nesterov;

  explicit MomentumRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        momentum(attribute<double>(request, "momentum")),
        weight_decay(attribute<double>(request, "weight_decay")),
        nesterov(attribute<bool>(request, "nesterov")) {}

  /// m = b*m + scale*g; w -= lr*m, with Nesterov w -= lr*(scale*g + b*m).
  template <typename T>
  struct Move {
    T scale, momentum, negative_rate, decay;
    bool nesterov;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T moved = momentum * values[1] + scaled;
      const T direction = nesterov ? scaled + momentum * moved : moved;
      values[0] = values[0] + (negative_rate * direction + decay * values[0]);
      values[1] = moved;
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    return {static_cast<T>(scaled), static_cast<T>(momentum), static_cast<T>(-call.learning_rate),
            static_cast<T>(-call.learning_rate * weight_decay), nesterov};
  }
};

/// AMSGrad, with 4 arrays, divides by the root of the largest v so far, the last array.
template <int kArrays>
struct AdamRule : MeansRule {
  static constexpr int kMoved = kArrays;
  bool corrected;

  explicit AdamRule(const Request& request)
      : MeansRule(request), corrected(attribute<bool>(request, "bias_correction")) {}

  template <typename T>
  struct Move {
    Means<T> means;
    T negative_rate;  // divided by what m has gathered
    T correction;     // one over the root of what v has gathered
    T epsilon, decay;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      means.move(g, values);
      T& largest = values[kMoved - 1];
      largest = values[2] < largest ? largest : values[2];
      const T root = correction * std::sqrt(largest) + epsilon;
      values[0] = values[0] + (negative_rate * values[1] / root + decay * values[0]);
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    const double rate = call.learning_rate;
    return {means<T>(scaled), static_cast<T>(-rate / gathered(beta1, corrected, call.step)),
            static_cast<T>(1 / std::sqrt(gathered(beta2, corrected, call.step))),
            static_cast<T>(epsilon), static_cast<T>(-rate * weight_decay)};
  }
};

/// PyTorch's SparseAdam adds epsilon to the root before that is corrected.
struct SparseAdamRule : MeansRule {
  bool corrected;

  explicit SparseAdamRule(const Request& request)
      : MeansRule(request, 0), corrected(attribute<bool>(request, "bias_correction")) {}

  template <typename T>
  __device__ AdamRule<3>::Move<T> of_call(double scaled, const CallBlock& call) const {
    const double rate = call.learning_rate * std::sqrt(gathered(beta2, corrected, call.step)) /
                        gathered(beta1, corrected, call.step);
    return {means<T>(scaled), static_cast<T>(-rate), T{1}, static_cast<T>(epsilon), T{0}};
  }
};

/// Arrays: w, ms, mg of a centered update, momentum of one with momentum.
template <bool kCentered, bool kMomentum>
struct RmspropRule {
  static constexpr int kMoved = 2 + kCentered + kMomentum;
  double scale, decay, momentum = 0;
  ops::RmspropEpsilons epsilons;

  explicit RmspropRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        decay(attribute<double>(request, "decay_rate")),
        epsilons(ops::RmspropEpsilons::of(request.step.attributes)) {
    if constexpr (kMomentum) momentum = attribute<double>(request, "momentum");
  }

  template <typename T>
  struct Move {
    T scale, decay, rest, negative_rate, inside, outside, momentum;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      const T scaled = scale * g;
      const T square = rest * (scaled * scaled) + decay * values[1];
      T variance = square;
      if constexpr (kCentered) {
        const T mean = rest * scaled + decay * values[2];
        variance = square - mean * mean;
        if (variance < 0) variance = 0;  // whatever rounding says
        values[2] = mean;
      }
      const T root = std::sqrt(variance + inside) + outside;
      if constexpr (kMomentum) {
        T& moved = values[kMoved - 1];
        moved = momentum * moved + scaled / root;
        values[0] = values[0] + negative_rate * moved;
      } else {
        values[0] = values[0] + negative_rate * scaled / root;
      }
      values[1] = square;
    }
  };
  template <typename T>
  __device__ Move<T> of_call(double scaled, const CallBlock& call) const {
    return {static_cast<T>(scaled),          static_cast<T>(decay),
            static_cast<T>(1 - decay),       static_cast<T>(-call.learning_rate),
            static_cast<T>(epsilons.inside), static_cast<T>(epsilons.outside),
            static_cast<T>(momentum)};
  }
};

Updates prepare_sgd_update(std::span<const Request> requests) {
  return updates_by<SgdRule>("sgd_update", requests);
}

Kernel prepare_sparse_sgd_update(const Request& request) {
  return sparse_update_by<SgdRule>("sparse_sgd_update", request);
}

Kernel prepare_sparse_adam_update(const Request& request) {
  return sparse_update_by<SparseAdamRule>("sparse_adam_update", request);
}

Updates prepare_momentum_update(std::span<const Request> requests) {
  return updates_by<MomentumRule>("momentum_update", requests);
}

Updates prepare_adam_update(std::span<const Request> requests) {
  return updates_by<AdamRule<3>>("adam_update", requests);
}

Updates prepare_amsgrad_update(std::span<const Request> requests) {
  return updates_by<AdamRule<4>>("amsgrad_update", requests);
}

Updates prepare_rmsprop_update(std::span<const Request> requests) {
  return updates_by<RmspropRule<false, false>>("rmsprop_update", requests);
}

Updates prepare_centered_rmsprop_update(std::span<const Request> requests) {
  return updates_by<RmspropRule<true, false>>("centered_rmsprop_update", requests);
}

Updates prepare_momentum_rmsprop_update(std::span<const Request> requests) {
  return updates_by<RmspropRule<false, true>>("momentum_rmsprop_update", requests);
}

Updates prepare_centered_momentum_rmsprop_update(std::span<const Request> requests) {
  return updates_by<RmspropRule<true, true>>("centered_momentum_rmsprop_update", requests);
}

}  // namespace

std::span<const KernelEntry> kernels::optimizer() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "sgd_update", .prepare_updates = prepare_sgd_update},
      {"sparse_sgd_update", prepare_sparse_sgd_update},
      {.op = "momentum_update", .prepare_updates = prepare_momentum_update},
      {.op = "adam_update", .prepare_updates = prepare_adam_update},
      {"sparse_adam_update", prepare_sparse_adam_update},
      {.op = "amsgrad_update", .prepare_updates = prepare_amsgrad_update},
      {.op = "rmsprop_update", .prepare_updates = prepare_rmsprop_update},
      {.op = "centered_rmsprop_update", .prepare_updates = prepare_centered_rmsprop_update},
      {.op = "momentum_rmsprop_update", .prepare_updates = prepare_momentum_rmsprop_update},
      {.op = "centered_momentum_rmsprop_update",
       .prepare_updates = prepare_centered_momentum_rmsprop_update},
  };
  return kKernels;
}

}  // namespace flow::cuda
