// LARS and LAMB: updates whose rate for a variable depends on norms of the whole of it.
#include <cmath>

#include "ops/lars_lamb/cuda_layerwise.cuh"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

/// Of the variable, and of the gradient before its scale.
struct LarsRule {
  static constexpr int kMoved = 2;
  double scale, momentum, epsilon, coefficient, weight_decay;

  explicit LarsRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        momentum(attribute<double>(request, "momentum_beta")),
        epsilon(attribute<double>(request, "epsilon")),
        coefficient(attribute<double>(request, "lars_coefficient")),
        weight_decay(attribute<double>(request, "weight_decay")) {}

  template <typename T>
  __device__ TwoSums squares(const UpdateEntry<kMoved>& entry, const Piece& piece,
                             const CallBlock&) const {
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* g = reinterpret_cast<const T*>(entry.gradient);
    TwoSums sums{};
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
      sums.first += static_cast<double>(w[i]) * static_cast<double>(w[i]);
      sums.second += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    return sums;
  }

  /// Norms are root mean squares.
  __device__ double rate(TwoSums sums, double scaled, int64_t elements,
                         const CallBlock& call) const {
    const double size = std::sqrt(sums.first / static_cast<double>(elements));
    const double slope = std::abs(scaled) * std::sqrt(sums.second / static_cast<double>(elements));
    const bool any = size > 0 && slope > 0;
    return call.learning_rate *
           (any ? coefficient * size / (slope + weight_decay * size + epsilon) : 1);
  }

  /// m = b*m - r*(scale*g + wd*w), w += m
  template <typename T>
  struct Move {
    T scale, momentum, weight_decay, negative_rate;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      values[1] = momentum * values[1] + negative_rate * (scale * g + weight_decay * values[0]);
      values[0] = values[0] + values[1];
    }
  };
  template <typename T>
  __device__ void move(const UpdateEntry<kMoved>& entry, const Piece& piece, double rate,
                       const CallBlock&) const {
    const double scaled = entry.template scaled<T>(scale);
    move_piece<T>(entry, piece,
                  Move<T>{static_cast<T>(scaled), static_cast<T>(momentum),
                          static_cast<T>(weight_decay), static_cast<T>(-rate)});
  }
};

/// Of the variable, and of its movement, for which m and v move first.
struct LambRule : MeansRule {
  using MeansRule::MeansRule;

  template <typename T>
  struct Movement {
    T mean_correction, root_correction, epsilon, weight_decay;
    __device__ T operator()(T w, T m, T v) const {
      return mean_correction * m / (root_correction * std::sqrt(v) + epsilon) + weight_decay * w;
    }
  };
  template <typename T>
  __device__ Movement<T> movement(const CallBlock& call) const {
    return {static_cast<T>(1 / gathered(beta1, true, call.step)),
            static_cast<T>(1 / std::sqrt(gathered(beta2, true, call.step))),
            static_cast<T>(epsilon), static_cast<T>(weight_decay)};
  }

  template <typename T>
  __device__ TwoSums squares(const UpdateEntry<kMoved>& entry, const Piece& piece,
                             const CallBlock& call) const {
    const T* g = reinterpret_cast<const T*>(entry.gradient);
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* old_m = reinterpret_cast<const T*>(entry.from[1]);
    const T* old_v = reinterpret_cast<const T*>(entry.from[2]);
    const Means<T> means = this->means<T>(entry.template scaled<T>(scale));
    const Movement<T> moves = movement<T>(call);
    TwoSums sums{};
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
      T values[kMoved] = {w[i], old_m[i], old_v[i]};
      means.move(g[i], values);
      const auto [variable, m, v] = values;
      const auto a = static_cast<double>(moves(variable, m, v));
      sums.first += static_cast<double>(w[i]) * static_cast<double>(w[i]);
      sums.second += a * a;
      reinterpret_cast<T*>(entry.to[1])[i] = m;
      reinterpret_cast<T*>(entry.to[2])[i] = v;
    }
    return sums;
  }

  __device__ double rate(TwoSums sums, double, int64_t, const CallBlock& call) const {
    const bool any = sums.first > 0 && sums.second > 0;
    return call.learning_rate * (any ? std::sqrt(sums.first) / std::sqrt(sums.second) : 1);
  }

  /// w -= r*a
  template <typename T>
  __device__ void move(const UpdateEntry<kMoved>& entry, const Piece& piece, double rate,
                       const CallBlock& call) const {
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* m = reinterpret_cast<const T*>(entry.to[1]);
    const T* v = reinterpret_cast<const T*>(entry.to[2]);
    const Movement<T> moves = movement<T>(call);
    const auto negative_rate = static_cast<T>(-rate);
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x)
      reinterpret_cast<T*>(entry.to[0])[i] = w[i] + negative_rate * moves(w[i], m[i], v[i]);
  }
};

Updates prepare_lars_update(std::span<const Request> requests) {
  return layerwise<LarsRule>("lars_update", requests);
}

Updates prepare_lamb_update(std::span<const Request> requests) {
  return layerwise<LambRule>("lamb_update", requests);
}

}  // namespace

std::span<const KernelEntry> kernels::lars_lamb() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "lars_update", .prepare_updates = prepare_lars_update},
      {.op = "lamb_update", .prepare_updates = prepare_lamb_update},
  };
  return kKernels;
}

}  // namespace flow::cuda
