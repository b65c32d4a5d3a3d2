// rms_normalize: rows of adjacent features, each divided by its root mean square; and its
// gradients. A team of threads has a row.
#include <cmath>

#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/feature_rows.cuh"

namespace flow::cuda {
namespace {

/// A block of kTeam threads for each row. `inverses`, 1 / rms of each row, may be null.
template <int kTeam, typename T>
__global__ void rms_normalise_rows(FeatureRows r, double epsilon, const T* x, const T* gamma, T* y,
                                   T* inverses) {
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T* from = x + row * r.features;
    const double squares = sum_row<kTeam>(r.features, [=](int64_t i) {
      return static_cast<double>(from[i]) * static_cast<double>(from[i]);
    });
    const double mean = squares / static_cast<double>(r.features);
    const auto inverse = static_cast<T>(1 / ::sqrt(mean + epsilon));
    for (int64_t i = threadIdx.x; i < r.features; i += kTeam)
      y[row * r.features + i] = from[i] * inverse * gamma[i];
    if (inverses && threadIdx.x == 0) inverses[row] = inverse;
  }
}

template <int kTeam, typename T>
__global__ void rms_differentiate_rows(FeatureRows r, const T* dy, const T* x, const T* gamma,
                                       const T* inverses, T* dx) {
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T *g = dy + row * r.features, *from = x + row * r.features;
    const T factor = inverses[row];
    const auto inverse = static_cast<double>(factor);
    const double product = sum_row<kTeam>(r.features, [=](int64_t i) {
      return static_cast<double>(g[i] * gamma[i]) * static_cast<double>(from[i]);
    });
    const auto slope =
        static_cast<T>(product / static_cast<double>(r.features) * inverse * inverse);
    for (int64_t i = threadIdx.x; i < r.features; i += kTeam)
      dx[row * r.features + i] = factor * (g[i] * gamma[i] - from[i] * slope);
  }
}

/// The sum over rows of dy times the normalised x.
template <typename T>
struct GammaGradient {
  using Sums = double;

  __device__ double term(int64_t row, int64_t at) const {
    return static_cast<double>(dy[at]) * static_cast<double>(x[at]) *
           static_cast<double>(inverses[row]);
  }
  __device__ void store(int64_t i, double sum) const { dgamma[i] = static_cast<T>(sum); }

  const T *dy, *x, *inverses;
  T* dgamma;
};

Kernel prepare_rms_normalize(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r = feature_rows(request), epsilon = attribute<double>(request, "epsilon")](
                const Buffers& b, const LaunchState& state) {
      const auto kernel =
          is_short(r) ? rms_normalise_rows<kWarp, T> : rms_normalise_rows<kThreads, T>;
      launch(state.driver, state.stream, "rms_normalize", shape_for_teams(r), kernel, r, epsilon,
             input<T>(b, 0), input<T>(b, 1), output<T>(b, 0), output<T>(b, 1));
    }};
  });
}

Kernel prepare_rms_normalize_grad(const Request& request) {
  const FeatureRows r = feature_rows(request);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r](const Buffers& b, const LaunchState& state) {
              const GammaGradient<T> gradient{input<T>(b, 0), input<T>(b, 1), input<T>(b, 3),
                                              output<T>(b, 1)};
              const auto kernel = is_short(r) ? rms_differentiate_rows<kWarp, T>
                                              : rms_differentiate_rows<kThreads, T>;
              launch(state.driver, state.stream, "rms_normalize_grad", shape_for_teams(r), kernel,
                     r, gradient.dy, gradient.x, input<T>(b, 2), gradient.inverses,
                     output<T>(b, 0));
              if (gradient.dgamma)
                sum_over_rows(state, "rms_normalize_sums", "rms_normalize_chunks", r, gradient,
                              b.workspace);
            },
            workspace_for<GammaGradient<T>>(r)};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::rms_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"rms_normalize", prepare_rms_normalize, Order::kOwn},
      {"rms_normalize_grad", prepare_rms_normalize_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
