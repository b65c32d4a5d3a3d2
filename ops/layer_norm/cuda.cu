// layer_normalize: rows of adjacent features, each normalised by its own mean and variance; and its
// gradients. A team of threads has a row.
#include <cmath>

#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/feature_rows.cuh"

namespace flow::cuda {
namespace {

__device__ double inverse_deviation(double variance, double epsilon) {
  return 1 / ::sqrt(variance + epsilon);
}

/// A block of kTeam threads for each row.
template <int kTeam, typename T>
__global__ void normalise_features(FeatureRows r, double epsilon, const T* x, const T* gamma,
                                   const T* beta, T* y, T* means, T* variances) {
  const auto n = static_cast<double>(r.features);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T* from = x + row * r.features;
    T* to = y + row * r.features;
    const double mean =
        sum_row<kTeam>(r.features, [=](int64_t i) { return static_cast<double>(from[i]); }) / n;
    const double variance = sum_row<kTeam>(r.features,
                                           [=](int64_t i) {
                                             const double off = static_cast<double>(from[i]) - mean;
                                             return off * off;
                                           }) /
                            n;
    const auto center = static_cast<T>(mean);
    const auto inverse = static_cast<T>(inverse_deviation(variance, epsilon));
    for (int64_t i = threadIdx.x; i < r.features; i += kTeam)
      to[i] = (from[i] - center) * inverse * gamma[i] + beta[i];
    if (threadIdx.x > 0) continue;
    if (means) means[row] = center;
    if (variances) variances[row] = static_cast<T>(variance);
  }
}

template <int kTeam, typename T>
__global__ void differentiate_features(FeatureRows r, double epsilon, const T* dy, const T* x,
                                       const T* gamma, const T* means, const T* variances, T* dx) {
  const auto n = static_cast<double>(r.features);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T *g = dy + row * r.features, *from = x + row * r.features;
    const T mean = means[row];
    const double inverse = inverse_deviation(static_cast<double>(variances[row]), epsilon);
    const double sum =
        sum_row<kTeam>(r.features, [=](int64_t i) { return static_cast<double>(g[i] * gamma[i]); });
    const double product = sum_row<kTeam>(r.features, [=](int64_t i) {
      return static_cast<double>(g[i] * gamma[i]) * static_cast<double>(from[i] - mean);
    });
    const auto factor = static_cast<T>(inverse), term = static_cast<T>(sum / n);
    const auto slope = static_cast<T>(product / n * inverse * inverse);
    for (int64_t i = threadIdx.x; i < r.features; i += kTeam)
      dx[row * r.features + i] = factor * (g[i] * gamma[i] - term - (from[i] - mean) * slope);
  }
}

/// Sums over rows: of dy times the normalised x, and of dy.
struct FeatureSums {
  double dgamma, dbeta;

  __device__ FeatureSums& operator+=(const FeatureSums& other) {
    dgamma += other.dgamma;
    dbeta += other.dbeta;
    return *this;
  }
};

/// Either result may be null.
template <typename T>
struct AffineGradients {
  using Sums = FeatureSums;

  __device__ Sums term(int64_t row, int64_t at) const {
    const auto g = static_cast<double>(dy[at]);
    const auto off = static_cast<double>(x[at] - means[row]);
    return {g * off * inverse_deviation(static_cast<double>(variances[row]), epsilon), g};
  }
  __device__ void store(int64_t i, const Sums& sums) const {
    if (dgamma) dgamma[i] = static_cast<T>(sums.dgamma);
    if (dbeta) dbeta[i] = static_cast<T>(sums.dbeta);
  }

  double epsilon;
  const T *dy, *x, *means, *variances;
  T *dgamma, *dbeta;
};

Kernel prepare_layer_normalize(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r = feature_rows(request), epsilon = attribute<double>(request, "epsilon")](
                const Buffers& b, const LaunchState& state) {
      const auto kernel =
          is_short(r) ? normalise_features<kWarp, T> : normalise_features<kThreads, T>;
      launch(state.driver, state.stream, "layer_normalize", shape_for_teams(r), kernel, r, epsilon,
             input<T>(b, 0), input<T>(b, 1), input<T>(b, 2), output<T>(b, 0), output<T>(b, 1),
             output<T>(b, 2));
    }};
  });
}

Kernel prepare_layer_normalize_grad(const Request& request) {
  const FeatureRows r = feature_rows(request);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r, epsilon = attribute<double>(request, "epsilon")](const Buffers& b,
                                                                 const LaunchState& state) {
              const AffineGradients<T> gradients{epsilon,        input<T>(b, 0), input<T>(b, 1),
                                                 input<T>(b, 3), input<T>(b, 4), output<T>(b, 1),
                                                 output<T>(b, 2)};
              const auto kernel = is_short(r) ? differentiate_features<kWarp, T>
                                              : differentiate_features<kThreads, T>;
              launch(state.driver, state.stream, "layer_normalize_grad", shape_for_teams(r), kernel,
                     r, epsilon, gradients.dy, gradients.x, input<T>(b, 2), gradients.means,
                     gradients.variances, output<T>(b, 0));
              if (gradients.dgamma || gradients.dbeta)
                sum_over_rows(state, "layer_normalize_sums", "layer_normalize_chunks", r, gradients,
                              b.workspace);
            },
            workspace_for<AffineGradients<T>>(r)};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::layer_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"layer_normalize", prepare_layer_normalize, Order::kOwn},
      {"layer_normalize_grad", prepare_layer_normalize_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
