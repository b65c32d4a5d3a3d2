// The optimizers' updates, in place: one pass over a gradient and what it moves. Sparse ones pass
// over the rows of a gradient and the rows of a variable that these belong to.
#include "ops/optimizer/cpu_update.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

/// w += a * g, the product rounded before the sum.
FLOW_VECTORIZED void sgd_piece(const UpdateArrays<1>& arrays, float a, int64_t n) {
  const float *g = arrays.g, *w = arrays.from[0];
  float* updated = arrays.to[0];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) updated[i] = w[i] + a * g[i];
}

struct MomentumRates {
  float scale, momentum, negative_rate, decay;  // decay: -lr * weight_decay
};

/// m = b*m + scale*g, w -= lr*m
FLOW_VECTORIZED void momentum_piece(const UpdateArrays<2>& arrays, const MomentumRates& rates,
                                    int64_t n) {
  const MomentumRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *m = arrays.from[1];
  float *next_w = arrays.to[0], *next_m = arrays.to[1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float moved = r.momentum * m[i] + r.scale * g[i];
    next_w[i] = w[i] + (r.negative_rate * moved + r.decay * w[i]);
    next_m[i] = moved;
  }
}

/// m = b*m + scale*g, w -= lr*(scale*g + b*m)
FLOW_VECTORIZED void nesterov_piece(const UpdateArrays<2>& arrays, const MomentumRates& rates,
                                    int64_t n) {
  const MomentumRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *m = arrays.from[1];
  float *next_w = arrays.to[0], *next_m = arrays.to[1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = r.scale * g[i];
    const float moved = r.momentum * m[i] + scaled;
    const float direction = scaled + r.momentum * moved;
    next_w[i] = w[i] + (r.negative_rate * direction + r.decay * w[i]);
    next_m[i] = moved;
  }
}

struct AdamRates : MeanRates {
  float negative_rate;   // divided by what m has gathered
  float correction;      // one over the root of what v has gathered
  float epsilon, decay;  // decay: -lr * weight_decay
};

/// AMSGrad, with 4 arrays, divides by the root of the largest v so far, the last array.
template <size_t kMoved>
[[gnu::always_inline]] inline void adam_loop(const UpdateArrays<kMoved>& arrays,
                                             const AdamRates& rates, int64_t n) {
  const AdamRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *m = arrays.from[1], *v = arrays.from[2];
  const float* largest = arrays.from[kMoved - 1];
  float *next_w = arrays.to[0], *next_m = arrays.to[1], *next_v = arrays.to[2];
  float* next_largest = arrays.to[kMoved - 1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const MeanRates::Moved next = r.move(g[i], m[i], v[i]);
    float square = next.square;
    if constexpr (kMoved == 4) square = square < largest[i] ? largest[i] : square;
    const float root = r.correction * std::sqrt(square) + r.epsilon;
    next_w[i] = w[i] + (r.negative_rate * next.mean / root + r.decay * w[i]);
    next_m[i] = next.mean;
    next_v[i] = next.square;
    if constexpr (kMoved == 4) next_largest[i] = square;
  }
}

FLOW_VECTORIZED void adam_piece(const UpdateArrays<3>& arrays, const AdamRates& rates, int64_t n) {
  adam_loop(arrays, rates, n);
}

FLOW_VECTORIZED void amsgrad_piece(const UpdateArrays<4>& arrays, const AdamRates& rates,
                                   int64_t n) {
  adam_loop(arrays, rates, n);
}

struct RmspropRates {
  float scale, decay, rest, negative_rate;
  float inside, outside;  // what is added to the mean square, and to its root
  float momentum;
};

/// Arrays: w, ms, mg of a centered update, momentum of one with momentum.
template <bool kCentered, bool kMomentum>
[[gnu::always_inline]] inline void rmsprop_loop(
    const UpdateArrays<2 + kCentered + kMomentum>& arrays, const RmspropRates& rates, int64_t n) {
  constexpr size_t kMean = kCentered ? 2 : 0, kLast = kMomentum ? 2 + kCentered : 0;
  const RmspropRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *ms = arrays.from[1];
  const float *mg = arrays.from[kMean], *m = arrays.from[kLast];
  float *next_w = arrays.to[0], *next_ms = arrays.to[1];
  float *next_mg = arrays.to[kMean], *next_m = arrays.to[kLast];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = r.scale * g[i];
    const float square = r.rest * (scaled * scaled) + r.decay * ms[i];
    float variance = square;
    if constexpr (kCentered) {
      const float mean = r.rest * scaled + r.decay * mg[i];
      variance = square - mean * mean;
      variance = variance < 0 ? 0 : variance;  // whatever rounding says
      next_mg[i] = mean;
    }
    const float root = std::sqrt(variance + r.inside) + r.outside;
    if constexpr (kMomentum) {
      const float moved = r.momentum * m[i] + scaled / root;
      next_w[i] = w[i] + r.negative_rate * moved;
      next_m[i] = moved;
    } else {
      next_w[i] = w[i] + r.negative_rate * scaled / root;
    }
    next_ms[i] = square;
  }
}

FLOW_VECTORIZED void rmsprop_piece(const UpdateArrays<2>& arrays, const RmspropRates& rates,
                                   int64_t n) {
  rmsprop_loop<false, false>(arrays, rates, n);
}

FLOW_VECTORIZED void centered_rmsprop_piece(const UpdateArrays<3>& arrays,
                                            const RmspropRates& rates, int64_t n) {
  rmsprop_loop<true, false>(arrays, rates, n);
}

FLOW_VECTORIZED void momentum_rmsprop_piece(const UpdateArrays<3>& arrays,
                                            const RmspropRates& rates, int64_t n) {
  rmsprop_loop<false, true>(arrays, rates, n);
}

FLOW_VECTORIZED void centered_momentum_rmsprop_piece(const UpdateArrays<4>& arrays,
                                                     const RmspropRates& rates, int64_t n) {
  rmsprop_loop<true, true>(arrays, rates, n);
}

auto rmsprop_rates(const Request& request) {
  const plan::Attribute* momentum = request.step.attributes.find("momentum");
  return [decay = number(request, "decay_rate"),
          epsilons = ops::RmspropEpsilons::of(request.step.attributes),
          momentum = momentum ? std::get<double>(*momentum) : 0](double scale,
                                                                 const CallState& state) {
    return RmspropRates{
        static_cast<float>(scale),           static_cast<float>(decay),
        static_cast<float>(1 - decay),       static_cast<float>(-state.learning_rate),
        static_cast<float>(epsilons.inside), static_cast<float>(epsilons.outside),
        static_cast<float>(momentum)};
  };
}

float sgd_rate(double scale, const CallState& state) {
  return static_cast<float>(-state.learning_rate * scale);
}

Kernel prepare_sgd_update(const Request& request) {
  return update_kernel<1>(request, sgd_rate, sgd_piece);
}

Kernel prepare_sparse_sgd_update(const Request& request) {
  return sparse_update_kernel<1>(request, sgd_rate, sgd_piece);
}

Kernel prepare_momentum_update(const Request& request) {
  const auto rates = [momentum = number(request, "momentum"),
                      weight_decay = number(request, "weight_decay")](double scale,
                                                                      const CallState& state) {
    return MomentumRates{static_cast<float>(scale), static_cast<float>(momentum),
                         static_cast<float>(-state.learning_rate),
                         static_cast<float>(-state.learning_rate * weight_decay)};
  };
  return update_kernel<2>(
      request, rates,
      request.step.attributes.get<bool>("nesterov") ? nesterov_piece : momentum_piece);
}

auto adam_rates(const Request& request) {
  return [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
          epsilon = number(request, "epsilon"), weight_decay = number(request, "weight_decay"),
          corrected = request.step.attributes.get<bool>("bias_correction")](
             double scale, const CallState& state) {
    const double rate = state.learning_rate;
    return AdamRates{{scale, beta1, beta2},
                     static_cast<float>(-rate / gathered(beta1, corrected, state.step)),
                     static_cast<float>(1 / std::sqrt(gathered(beta2, corrected, state.step))),
                     static_cast<float>(epsilon),
                     static_cast<float>(-rate * weight_decay)};
  };
}

Kernel prepare_adam_update(const Request& request) {
  return update_kernel<3>(request, adam_rates(request), adam_piece);
}

Kernel prepare_amsgrad_update(const Request& request) {
  return update_kernel<4>(request, adam_rates(request), amsgrad_piece);
}

/// PyTorch's SparseAdam adds epsilon to the root before that is corrected.
Kernel prepare_sparse_adam_update(const Request& request) {
  const auto rates = [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                      epsilon = number(request, "epsilon"),
                      corrected = request.step.attributes.get<bool>("bias_correction")](
                         double scale, const CallState& state) {
    const double rate = state.learning_rate * std::sqrt(gathered(beta2, corrected, state.step)) /
                        gathered(beta1, corrected, state.step);
    return AdamRates{
        {scale, beta1, beta2}, static_cast<float>(-rate), 1, static_cast<float>(epsilon), 0};
  };
  return sparse_update_kernel<3>(request, rates, adam_piece);
}

Kernel prepare_rmsprop_update(const Request& request) {
  return update_kernel<2>(request, rmsprop_rates(request), rmsprop_piece);
}

Kernel prepare_centered_rmsprop_update(const Request& request) {
  return update_kernel<3>(request, rmsprop_rates(request), centered_rmsprop_piece);
}

Kernel prepare_momentum_rmsprop_update(const Request& request) {
  return update_kernel<3>(request, rmsprop_rates(request), momentum_rmsprop_piece);
}

Kernel prepare_centered_momentum_rmsprop_update(const Request& request) {
  return update_kernel<4>(request, rmsprop_rates(request), centered_momentum_rmsprop_piece);
}

}  // namespace

std::span<const KernelEntry> optimizer() {
  static constexpr KernelEntry kKernels[] = {
      {"sgd_update", prepare_sgd_update},
      {"sparse_sgd_update", prepare_sparse_sgd_update},
      {"momentum_update", prepare_momentum_update},
      {"adam_update", prepare_adam_update},
      {"sparse_adam_update", prepare_sparse_adam_update},
      {"amsgrad_update", prepare_amsgrad_update},
      {"rmsprop_update", prepare_rmsprop_update},
      {"centered_rmsprop_update", prepare_centered_rmsprop_update},
      {"momentum_rmsprop_update", prepare_momentum_rmsprop_update},
      {"centered_momentum_rmsprop_update", prepare_centered_momentum_rmsprop_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
