// Updates whose rate for a variable depends on the whole of it: LARS, LAMB and Adafactor, whose
// means of squares move in place. One pass finds the norms, in pieces that are summed in order, and
// one moves the variable.
#include <cstdint>

#include "ops/optimizer/cpu_piece_sums.h"
#include "ops/optimizer/cpu_update.h"
#include "runtime/base/optimizer_math.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kSumLanes = 16;

/// Two sums over a variable.
struct TwoSums {
  double first = 0, second = 0;

  TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

double sum_of(const double (&lanes)[kSumLanes]) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

/// The sums of squares of two arrays.
FLOW_VECTORIZED TwoSums squares(const float* a, const float* b, int64_t n) {
  double of_a[kSumLanes] = {}, of_b[kSumLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kSumLanes; ++k) {
      const auto x = static_cast<double>(a[i + k]), y = static_cast<double>(b[i + k]);
      of_a[k] += x * x;
      of_b[k] += y * y;
    }
  }
  for (; i < n; ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    of_a[0] += x * x;
    of_b[0] += y * y;
  }
  return {sum_of(of_a), sum_of(of_b)};
}

struct LarsRates {
  float scale, momentum, weight_decay, negative_rate;
};

/// m = b*m - r*(scale*g + wd*w), w += m
FLOW_VECTORIZED void lars_piece(const UpdateArrays<2>& arrays, const LarsRates& rates, int64_t n) {
  const LarsRates r = rates;
  const float *g = arrays.g, *w = arrays.from[0], *m = arrays.from[1];
  float *next_w = arrays.to[0], *next_m = arrays.to[1];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float moved =
        r.momentum * m[i] + r.negative_rate * (r.scale * g[i] + r.weight_decay * w[i]);
    next_w[i] = w[i] + moved;
    next_m[i] = moved;
  }
}

struct LambRates : MeanRates {
  float mean_correction, root_correction, epsilon, weight_decay;
};

/// The movement where m and v are new.
inline float movement(const LambRates& r, float w, float m, float v) {
  return r.mean_correction * m / (r.root_correction * std::sqrt(v) + r.epsilon) +
         r.weight_decay * w;
}

/// Moves m and v.
FLOW_VECTORIZED void lamb_means(const UpdateArrays<3>& arrays, const LambRates& rates, int64_t n) {
  const LambRates r = rates;
  const float *g = arrays.g, *m = arrays.from[1], *v = arrays.from[2];
  float *next_m = arrays.to[1], *next_v = arrays.to[2];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const MeanRates::Moved next = r.move(g[i], m[i], v[i]);
    next_m[i] = next.mean;
    next_v[i] = next.square;
  }
}

/// The sums of squares of the variable and of its movement.
FLOW_VECTORIZED TwoSums lamb_squares(const UpdateArrays<3>& arrays, const LambRates& rates,
                                     int64_t n) {
  const LambRates r = rates;
  const float *w = arrays.from[0], *m = arrays.to[1], *v = arrays.to[2];
  double of_w[kSumLanes] = {}, of_a[kSumLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kSumLanes; ++k) {
      const auto x = static_cast<double>(w[i + k]);
      const auto a = static_cast<double>(movement(r, w[i + k], m[i + k], v[i + k]));
      of_w[k] += x * x;
      of_a[k] += a * a;
    }
  }
  for (; i < n; ++i) {
    const auto x = static_cast<double>(w[i]);
    const auto a = static_cast<double>(movement(r, w[i], m[i], v[i]));
    of_w[0] += x * x;
    of_a[0] += a * a;
  }
  return {sum_of(of_w), sum_of(of_a)};
}

FLOW_VECTORIZED void lamb_piece(const UpdateArrays<3>& arrays, const LambRates& rates,
                                float negative_rate, int64_t n) {
  const LambRates r = rates;
  const float *w = arrays.from[0], *m = arrays.to[1], *v = arrays.to[2];
  float* next_w = arrays.to[0];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) next_w[i] = w[i] + negative_rate * movement(r, w[i], m[i], v[i]);
}

Kernel prepare_lars_update(const Request& request) {
  const int64_t n = request.outputs[0].shape.elements();
  const PieceSums<TwoSums> sums_of(request, 0, 1);
  Kernel kernel;
  kernel.workspace = sums_of.bytes();
  kernel.gathered = sums_of.gathered_bytes();
  kernel.launch = [n, sums_of, elements = static_cast<double>(request.inputs[0].whole_elements()),
                   threads = request.threads, gradient_scale = GradientScale(request, 2),
                   momentum = number(request, "momentum_beta"),
                   coefficient = number(request, "lars_coefficient"),
                   epsilon = number(request, "epsilon"), rate_scale = number(request, "rate_scale"),
                   weight_decay = number(request, "weight_decay")](const Buffers& buffers,
                                                                   const CallState& state) {
    const UpdateArrays<2> arrays(buffers);
    const double scale = gradient_scale(buffers);
    if (std::isnan(scale)) return keep(arrays.from, arrays.to, n);
    const TwoSums sums = sums_of(threads, buffers.workspace, [&](size_t, int64_t i, int64_t end) {
      return squares(arrays.from[0] + i, arrays.g + i, end - i);
    });
    const double size = std::sqrt(sums.first / elements);
    const double slope = std::abs(scale) * std::sqrt(sums.second / elements);
    const double ratio =
        size > 0 && slope > 0 ? coefficient * size / (slope + weight_decay * size + epsilon) : 1;
    const double rate = state.at_rate(rate_scale).learning_rate * ratio;
    const LarsRates rates{static_cast<float>(scale), static_cast<float>(momentum),
                          static_cast<float>(weight_decay), static_cast<float>(-rate)};
    for_pieces(threads, n, kPiece,
               [&](int64_t i, int64_t end) { lars_piece(arrays.at(i), rates, end - i); });
  };
  return kernel;
}

Kernel prepare_lamb_update(const Request& request) {
  const int64_t n = request.outputs[0].shape.elements();
  const PieceSums<TwoSums> sums_of(request, 0, 1);
  Kernel kernel;
  kernel.workspace = sums_of.bytes();
  kernel.gathered = sums_of.gathered_bytes();
  kernel.launch = [n, sums_of, threads = request.threads,
                   gradient_scale = GradientScale(request, 3), beta1 = number(request, "beta1"),
                   beta2 = number(request, "beta2"), epsilon = number(request, "epsilon"),
                   rate_scale = number(request, "rate_scale"),
                   weight_decay = number(request, "weight_decay")](const Buffers& buffers,
                                                                   const CallState& state) {
    const UpdateArrays<3> arrays(buffers);
    const double scale = gradient_scale(buffers);
    if (std::isnan(scale)) return keep(arrays.from, arrays.to, n);
    const LambRates rates{{scale, beta1, beta2},
                          static_cast<float>(1 / gathered(beta1, true, state.step)),
                          static_cast<float>(1 / std::sqrt(gathered(beta2, true, state.step))),
                          static_cast<float>(epsilon),
                          static_cast<float>(weight_decay)};
    const TwoSums sums = sums_of(threads, buffers.workspace, [&](size_t, int64_t i, int64_t end) {
      lamb_means(arrays.at(i), rates, end - i);
      return lamb_squares(arrays.at(i), rates, end - i);
    });
    const double ratio =
        sums.first > 0 && sums.second > 0 ? std::sqrt(sums.first) / std::sqrt(sums.second) : 1;
    const auto negative_rate = static_cast<float>(-state.at_rate(rate_scale).learning_rate * ratio);
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      lamb_piece(arrays.at(i), rates, negative_rate, end - i);
    });
  };
  return kernel;
}

struct SquareRates {
  float square_scale, share;  // square_scale: of squares, as scale^2
};

FLOW_VECTORIZED void mean_piece(const UpdateArrays<1>& arrays, const SquareRates& rates,
                                int64_t n) {
  const SquareRates r = rates;
  const float *square = arrays.g, *mean = arrays.from[0];
  float* next = arrays.to[0];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    next[i] = mean[i] + r.share * (r.square_scale * square[i] - mean[i]);
}

/// A gradient with what is made of it, from element i on.
struct AdafactorArrays {
  const float *g, *w, *mean_square;
  float* next_w;

  explicit AdafactorArrays(const Buffers& buffers)
      : g(input<float>(buffers, 0)),
        w(input<float>(buffers, 1)),
        mean_square(input<float>(buffers, 2)),
        next_w(output<float>(buffers, 0)) {}
  AdafactorArrays at(int64_t i) const {
    AdafactorArrays moved = *this;
    moved.g += i, moved.w += i, moved.mean_square += i, moved.next_w += i;
    return moved;
  }
};

struct AdafactorRates {
  float scale, epsilon1;

  [[gnu::always_inline]] float update(float g, float mean_square) const {
    return scale * g / std::max(std::sqrt(mean_square), epsilon1);
  }
};

/// The sums of squares of the variable and of its update.
FLOW_VECTORIZED TwoSums adafactor_squares(const AdafactorArrays& arrays,
                                          const AdafactorRates& rates, int64_t n) {
  const AdafactorRates r = rates;
  const float *g = arrays.g, *w = arrays.w, *mean_square = arrays.mean_square;
  double of_w[kSumLanes] = {}, of_u[kSumLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kSumLanes; ++k) {
      const auto x = static_cast<double>(w[i + k]);
      const auto u = static_cast<double>(r.update(g[i + k], mean_square[i + k]));
      of_w[k] += x * x;
      of_u[k] += u * u;
    }
  }
  for (; i < n; ++i) {
    const auto x = static_cast<double>(w[i]);
    const auto u = static_cast<double>(r.update(g[i], mean_square[i]));
    of_w[0] += x * x;
    of_u[0] += u * u;
  }
  return {sum_of(of_w), sum_of(of_u)};
}

/// `negative_rate`, `decay`: times the update, and the variable.
FLOW_VECTORIZED void adafactor_piece(const AdafactorArrays& arrays, const AdafactorRates& rates,
                                     float negative_rate, float decay, int64_t n) {
  const AdafactorRates r = rates;
  const float *g = arrays.g, *w = arrays.w, *mean_square = arrays.mean_square;
  float* next_w = arrays.next_w;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    next_w[i] = w[i] + (negative_rate * r.update(g[i], mean_square[i]) + decay * w[i]);
}

Kernel prepare_adafactor_mean(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements(),
                   gradient_scale = GradientScale(request, 1),
                   decay = number(request, "beta2_decay")](const Buffers& buffers,
                                                           const CallState& state) {
    const UpdateArrays<1> arrays(buffers);
    const double scale = gradient_scale(buffers);
    if (std::isnan(scale)) return keep(arrays.from, arrays.to, n);
    const SquareRates rates{static_cast<float>(scale * scale),
                            static_cast<float>(share_of_squares(decay, state.step))};
    for_pieces(threads, n, kPiece,
               [&](int64_t i, int64_t end) { mean_piece(arrays.at(i), rates, end - i); });
  };
  return kernel;
}

Kernel prepare_adafactor_update(const Request& request) {
  const int64_t n = request.outputs[0].shape.elements();
  const PieceSums<TwoSums> sums_of(request, 0, 1);
  Kernel kernel;
  kernel.workspace = sums_of.bytes();
  kernel.gathered = sums_of.gathered_bytes();
  kernel.launch =
      [n, sums_of, elements = static_cast<double>(request.inputs[0].whole_elements()),
       threads = request.threads, gradient_scale = GradientScale(request, 2),
       epsilon1 = number(request, "epsilon1"),
       limits = AdafactorLimits{number(request, "epsilon2"), number(request, "clip_threshold")},
       rate_scale = number(request, "rate_scale"), weight_decay = number(request, "weight_decay")](
          const Buffers& buffers, const CallState& call) {
        const AdafactorArrays arrays(buffers);
        const double scale = gradient_scale(buffers);
        if (std::isnan(scale)) return keep<float, 1>({arrays.w}, {arrays.next_w}, n);
        const CallState state = call.at_rate(rate_scale);
        const AdafactorRates rates{static_cast<float>(scale), static_cast<float>(epsilon1)};
        const TwoSums sums =
            sums_of(threads, buffers.workspace, [&](size_t, int64_t i, int64_t end) {
              return adafactor_squares(arrays.at(i), rates, end - i);
            });
        const double rate =
            limits.rate(std::sqrt(sums.first / elements), std::sqrt(sums.second / elements),
                        state.learning_rate, state.step);
        const auto negative_rate = static_cast<float>(-rate);
        const auto decay = static_cast<float>(-state.learning_rate * weight_decay);
        for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
          adafactor_piece(arrays.at(i), rates, negative_rate, decay, end - i);
        });
      };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> layerwise_updates() {
  static constexpr KernelEntry kKernels[] = {
      {"lars_update", prepare_lars_update},
      {"lamb_update", prepare_lamb_update},
      {"adafactor_mean", prepare_adafactor_mean},
      {"adafactor_update", prepare_adafactor_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
