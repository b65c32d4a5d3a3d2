// layer_normalize, rms_normalize: rows of adjacent features, each normalized by its own mean and
// variance or divided by its root mean square; and their gradients. A team of threads has a row.
#include <algorithm>
#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

constexpr int kBlockColumns = 32, kBlockRows = 8;  // of a block that sums over rows

/// [rows, features]
struct FeatureRows {
  int64_t rows = 1, features = 1;
  int64_t chunk = 1, chunks = 1;  // rows, of sums over them
};

/// Operand 0, whose features begin at the step's attribute `axis`.
FeatureRows feature_rows(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  FeatureRows r{x.elements(0, axis), x.elements(axis, x.rank())};
  constexpr int64_t kFull = 1024, kLeast = 32;  // blocks; rows of a chunk
  const int64_t most = std::max<int64_t>(1, kFull / ceil_div(r.features, kBlockColumns));
  r.chunk = std::max(kLeast, ceil_div(r.rows, most));
  r.chunks = ceil_div(r.rows, r.chunk);
  return r;
}

/// Is a warp a row's team? Else a block is.
bool is_short(const FeatureRows& r) { return r.features <= 1024; }

LaunchShape shape_for_teams(const FeatureRows& r) {
  const unsigned threads = is_short(r) ? kWarp : kThreads;
  return {{blocks_for(r.rows)}, {threads}, threads / kWarp * sizeof(double)};
}

/// The sum of term(i), i < n, over a team of kTeam threads; every thread gets it.
template <int kTeam, typename Term>
__device__ double sum_row(int64_t n, Term term) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kTeam) sum += term(i);
  return over_team<kTeam>(sum, Sum{});
}

/// A block of kBlockColumns x kBlockRows threads for kBlockColumns features and a chunk of rows.
/// `gradients` makes a term of Gradients::Sums from element `at` of a row.
template <typename Gradients>
__global__ void sum_features(FeatureRows r, Gradients gradients, typename Gradients::Sums* parts) {
  using Sums = typename Gradients::Sums;
  Sums* own = shared<Sums>() + threadIdx.x;
  const int64_t first = blockIdx.y * r.chunk;
  const int64_t end = first + r.chunk < r.rows ? first + r.chunk : r.rows;
  for (int64_t column = static_cast<int64_t>(blockIdx.x) * kBlockColumns; column < r.features;
       column += static_cast<int64_t>(gridDim.x) * kBlockColumns) {
    const int64_t i = column + threadIdx.x;
    const bool any = i < r.features;
    Sums sums{};
    for (int64_t row = first + threadIdx.y; any && row < end; row += kBlockRows)
      sums += gradients.term(row, row * r.features + i);
    __syncthreads();  // the sums of the columns before
    own[threadIdx.y * kBlockColumns] = sums;
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    for (int other = 1; other < kBlockRows; ++other) sums += own[other * kBlockColumns];
    parts[blockIdx.y * r.features + i] = sums;
  }
}

/// A thread for each feature, whose sums `gradients` stores.
template <typename Gradients>
__global__ void add_chunks(FeatureRows r, const typename Gradients::Sums* parts,
                           Gradients gradients) {
  for (int64_t i = first_index(); i < r.features; i += index_step()) {
    typename Gradients::Sums sums{};
    for (int64_t chunk = 0; chunk < r.chunks; ++chunk) sums += parts[chunk * r.features + i];
    gradients.store(i, sums);
  }
}

/// Bytes of workspace that sum_over_rows takes.
template <typename Gradients>
size_t workspace_for(const FeatureRows& r) {
  return static_cast<size_t>(r.chunks * r.features) * sizeof(typename Gradients::Sums);
}

/// Launches both, under these names.
template <typename Gradients>
void sum_over_rows(const LaunchState& state, const char* sums, const char* chunks,
                   const FeatureRows& r, const Gradients& gradients, std::byte* workspace) {
  auto* parts = reinterpret_cast<typename Gradients::Sums*>(workspace);
  const LaunchShape shape{
      {blocks_for(ceil_div(r.features, kBlockColumns)), static_cast<unsigned>(r.chunks)},
      {kBlockColumns, kBlockRows},
      kBlockColumns * kBlockRows * sizeof(*parts)};
  launch(state.driver, state.stream, sums, shape, sum_features<Gradients>, r, gradients, parts);
  launch(state.driver, state.stream, chunks, shape_for(r.features), add_chunks<Gradients>, r, parts,
         gradients);
}

__device__ double inverse_deviation(double variance, double epsilon) {
  return 1 / ::sqrt(variance + epsilon);
}

/// A block of kTeam threads for each row.
template <int kTeam, typename T>
__global__ void normalize_features(FeatureRows r, double epsilon, const T* x, const T* gamma,
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

/// Sums over rows: of dy times the normalized x, and of dy.
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
          is_short(r) ? normalize_features<kWarp, T> : normalize_features<kThreads, T>;
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

/// A block of kTeam threads for each row. `inverses`, 1 / rms of each row, may be null.
template <int kTeam, typename T>
__global__ void rms_normalize_rows(FeatureRows r, double epsilon, const T* x, const T* gamma, T* y,
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

/// The sum over rows of dy times the normalized x.
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
          is_short(r) ? rms_normalize_rows<kWarp, T> : rms_normalize_rows<kThreads, T>;
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

std::span<const KernelEntry> kernels::feature_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"layer_normalize", prepare_layer_normalize, Order::kOwn},
      {"layer_normalize_grad", prepare_layer_normalize_grad, Order::kOwn},
      {"rms_normalize", prepare_rms_normalize, Order::kOwn},
      {"rms_normalize_grad", prepare_rms_normalize_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
