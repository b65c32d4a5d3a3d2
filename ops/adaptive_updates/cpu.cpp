// Updates of gradients that their own history or their sign scales, in place: one pass over a
// gradient and what it moves.
#include "ops/optimizer/cpu_update.h"
#include "runtime/base/optimizer_math.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

struct AdagradRates {
  float scale, negative_rate, epsilon;
};

/// sum += g^2, w -= lr g / (sqrt(sum) + epsilon)
FLOW_VECTORIZED void adagrad_piece(const UpdateArrays<2>& arrays, const AdagradRates& rates,
                                   int64_t n) {
  const AdagradRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *sum = arrays.from[1];
  float *next_w = arrays.to[0], *next_sum = arrays.to[1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = r.scale * g[i];
    const float squares = sum[i] + scaled * scaled;
    next_w[i] = w[i] + r.negative_rate * scaled / (std::sqrt(squares) + r.epsilon);
    next_sum[i] = squares;
  }
}

struct AdadeltaRates {
  float scale, decay, rest, negative_rate, epsilon;  // rest: 1 - decay
};

FLOW_VECTORIZED void adadelta_piece(const UpdateArrays<3>& arrays, const AdadeltaRates& rates,
                                    int64_t n) {
  const AdadeltaRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *square = arrays.from[1];
  const float* delta = arrays.from[2];
  float *next_w = arrays.to[0], *next_square = arrays.to[1], *next_delta = arrays.to[2];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = r.scale * g[i];
    const float mean = r.rest * (scaled * scaled) + r.decay * square[i];
    const float moved = std::sqrt(delta[i] + r.epsilon) / std::sqrt(mean + r.epsilon) * scaled;
    next_w[i] = w[i] + r.negative_rate * moved;
    next_square[i] = mean;
    next_delta[i] = r.rest * (moved * moved) + r.decay * delta[i];
  }
}

struct NadamRates : MeanRates {
  float gradient_rate, mean_rate;  // negative
  float correction, epsilon, decay;
};

FLOW_VECTORIZED void nadam_piece(const UpdateArrays<3>& arrays, const NadamRates& rates,
                                 int64_t n) {
  const NadamRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *m = arrays.from[1], *v = arrays.from[2];
  float *next_w = arrays.to[0], *next_m = arrays.to[1], *next_v = arrays.to[2];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const auto [scaled, mean, square] = r.move(g[i], m[i], v[i]);
    const float root = r.correction * std::sqrt(square) + r.epsilon;
    next_w[i] = w[i] + ((r.gradient_rate * scaled + r.mean_rate * mean) / root + r.decay * w[i]);
    next_m[i] = mean;
    next_v[i] = square;
  }
}

struct RadamRates : MeanRates {
  float negative_rate, epsilon, decay;
  bool rectified;
};

/// Without rectification the rate does not depend on v.
template <bool rectified>
[[gnu::always_inline]] inline void radam_loop(const UpdateArrays<3>& arrays,
                                              const RadamRates& rates, int64_t n) {
  const RadamRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *m = arrays.from[1], *v = arrays.from[2];
  float *next_w = arrays.to[0], *next_m = arrays.to[1], *next_v = arrays.to[2];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const MeanRates::Moved next = r.move(g[i], m[i], v[i]);
    float moved = r.negative_rate * next.mean;
    if constexpr (rectified) moved = moved / (std::sqrt(next.square) + r.epsilon);
    next_w[i] = w[i] + (moved + r.decay * w[i]);
    next_m[i] = next.mean;
    next_v[i] = next.square;
  }
}

FLOW_VECTORIZED void radam_piece(const UpdateArrays<3>& arrays, const RadamRates& rates,
                                 int64_t n) {
  if (rates.rectified)
    radam_loop<true>(arrays, rates, n);
  else
    radam_loop<false>(arrays, rates, n);
}

struct LionRates : MeanRates {
  float negative_rate, decay;  // decay: -lr * weight_decay
};

/// 1, -1, or 0 and NaN as they are.
inline float sign_of(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }

FLOW_VECTORIZED void lion_piece(const UpdateArrays<2>& arrays, const LionRates& rates, int64_t n) {
  const LionRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *m = arrays.from[1];
  float *next_w = arrays.to[0], *next_m = arrays.to[1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = r.scale * g[i];
    const float direction = sign_of(r.beta1 * m[i] + r.rest1 * scaled);
    next_w[i] = w[i] + (r.negative_rate * direction + r.decay * w[i]);
    next_m[i] = r.beta2 * m[i] + r.rest2 * scaled;
  }
}

struct FtrlRates {
  float scale, inverse_rate, beta, l1, l2;
};

FLOW_VECTORIZED void ftrl_loop(const UpdateArrays<3>& arrays, const FtrlRates& rates, int64_t n) {
  const FtrlRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *sum = arrays.from[1], *z = arrays.from[2];
  float *next_w = arrays.to[0], *next_sum = arrays.to[1], *next_z = arrays.to[2];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = r.scale * g[i];
    const float squares = sum[i] + scaled * scaled;
    const float root = std::sqrt(squares);
    const float moved = z[i] + (scaled - (root - std::sqrt(sum[i])) * r.inverse_rate * w[i]);
    const float pulled = moved > r.l1 ? moved - r.l1 : moved < -r.l1 ? moved + r.l1 : moved * 0.0f;
    next_w[i] = -pulled / ((r.beta + root) * r.inverse_rate + r.l2);
    next_sum[i] = squares;
    next_z[i] = moved;
  }
}

/// Where one over the rate is too large, all stays as it is.
void ftrl_piece(const UpdateArrays<3>& arrays, const FtrlRates& rates, int64_t n) {
  if (std::isfinite(rates.inverse_rate))
    ftrl_loop(arrays, rates, n);
  else
    keep(arrays.from, arrays.to, n);
}

auto adagrad_rates(const Request& request) {
  return [epsilon = number(request, "epsilon")](double scale, const CallState& state) {
    return AdagradRates{static_cast<float>(scale), static_cast<float>(-state.learning_rate),
                        static_cast<float>(epsilon)};
  };
}

Kernel prepare_adagrad_update(const Request& request) {
  return update_kernel<2>(request, adagrad_rates(request), adagrad_piece);
}

Kernel prepare_sparse_adagrad_update(const Request& request) {
  return sparse_update_kernel<2>(request, adagrad_rates(request), adagrad_piece);
}

Kernel prepare_adadelta_update(const Request& request) {
  const auto rates = [decay = number(request, "decay_rate"), epsilon = number(request, "epsilon")](
                         double scale, const CallState& state) {
    return AdadeltaRates{static_cast<float>(scale), static_cast<float>(decay),
                         static_cast<float>(1 - decay), static_cast<float>(-state.learning_rate),
                         static_cast<float>(epsilon)};
  };
  return update_kernel<3>(request, rates, adadelta_piece);
}

Kernel prepare_nadam_update(const Request& request) {
  const auto rates = [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                      epsilon = number(request, "epsilon"),
                      growth = std::pow(0.96, number(request, "momentum_decay")),
                      weight_decay = number(request, "weight_decay")](double scale,
                                                                      const CallState& state) {
    const double rate = state.learning_rate;
    const NadamFactors factors = nadam_factors(beta1, growth, state.step);
    return NadamRates{{scale, beta1, beta2},
                      static_cast<float>(-rate * factors.gradient),
                      static_cast<float>(-rate * factors.mean),
                      static_cast<float>(1 / std::sqrt(gathered(beta2, true, state.step))),
                      static_cast<float>(epsilon),
                      static_cast<float>(-rate * weight_decay)};
  };
  return update_kernel<3>(request, rates, nadam_piece);
}

Kernel prepare_radam_update(const Request& request) {
  const auto rates = [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                      epsilon = number(request, "epsilon"),
                      weight_decay = number(request, "weight_decay")](double scale,
                                                                      const CallState& state) {
    const double factor = rectification(beta2, state.step);
    double rate = state.learning_rate / gathered(beta1, true, state.step);
    if (factor > 0) rate *= factor * std::sqrt(gathered(beta2, true, state.step));
    return RadamRates{{scale, beta1, beta2},
                      static_cast<float>(-rate),
                      static_cast<float>(epsilon),
                      static_cast<float>(-state.learning_rate * weight_decay),
                      factor > 0};
  };
  return update_kernel<3>(request, rates, radam_piece);
}

Kernel prepare_lion_update(const Request& request) {
  const auto rates = [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                      weight_decay = number(request, "weight_decay")](double scale,
                                                                      const CallState& state) {
    return LionRates{{scale, beta1, beta2},
                     static_cast<float>(-state.learning_rate),
                     static_cast<float>(-state.learning_rate * weight_decay)};
  };
  return update_kernel<2>(request, rates, lion_piece);
}

Kernel prepare_ftrl_update(const Request& request) {
  const auto rates = [beta = number(request, "beta"), l1 = number(request, "l1"),
                      l2 = number(request, "l2")](double scale, const CallState& state) {
    return FtrlRates{static_cast<float>(scale), static_cast<float>(1 / state.learning_rate),
                     static_cast<float>(beta), static_cast<float>(l1), static_cast<float>(l2)};
  };
  return update_kernel<3>(request, rates, ftrl_piece);
}

}  // namespace

std::span<const KernelEntry> adaptive_updates() {
  static constexpr KernelEntry kKernels[] = {
      {"adagrad_update", prepare_adagrad_update},
      {"sparse_adagrad_update", prepare_sparse_adagrad_update},
      {"adadelta_update", prepare_adadelta_update},
      {"nadam_update", prepare_nadam_update},
      {"radam_update", prepare_radam_update},
      {"lion_update", prepare_lion_update},
      {"ftrl_update", prepare_ftrl_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
