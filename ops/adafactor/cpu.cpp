// Adafactor: means of squares in place, and updates in two passes: one for the sizes of a variable
// and of its update, in pieces that are summed in order, and one that moves the variable.
#include "ops/optimizer/cpu_piece_sums.h"
#include "ops/optimizer/cpu_two_sums.h"
#include "ops/optimizer/cpu_update.h"
#include "runtime/base/adafactor_rates.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

struct SquareRates {
  float square_scale, share;  // square_scale: of squares, as scale^2
};

FLOW_VECTORISED void mean_piece(const UpdateArrays<1>& arrays, const SquareRates& rates,
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
FLOW_VECTORISED TwoSums adafactor_squares(const AdafactorArrays& arrays,
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
FLOW_VECTORISED void adafactor_piece(const AdafactorArrays& arrays, const AdafactorRates& rates,
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

std::span<const KernelEntry> adafactor() {
  static constexpr KernelEntry kKernels[] = {
      {"adafactor_mean", prepare_adafactor_mean},
      {"adafactor_update", prepare_adafactor_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
