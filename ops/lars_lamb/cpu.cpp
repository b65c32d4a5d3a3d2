// LARS and LAMB: updates whose rate for a variable depends on norms of the whole of it. One pass
// for the norms, in pieces that are summed in order, and one that moves the variable.
#include "ops/optimizer/cpu_piece_sums.h"
#include "ops/optimizer/cpu_two_sums.h"
#include "ops/optimizer/cpu_update.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

/// The sums of squares of two arrays.
FLOW_VECTORISED TwoSums squares(const float* a, const float* b, int64_t n) {
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
FLOW_VECTORISED void lars_piece(const UpdateArrays<2>& arrays, const LarsRates& rates, int64_t n) {
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
FLOW_VECTORISED void lamb_means(const UpdateArrays<3>& arrays, const LambRates& rates, int64_t n) {
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
FLOW_VECTORISED TwoSums lamb_squares(const UpdateArrays<3>& arrays, const LambRates& rates,
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

FLOW_VECTORISED void lamb_piece(const UpdateArrays<3>& arrays, const LambRates& rates,
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

}  // namespace

std::span<const KernelEntry> lars_lamb() {
  static constexpr KernelEntry kKernels[] = {
      {"lars_update", prepare_lars_update},
      {"lamb_update", prepare_lamb_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
