// layer_normalize, rms_normalize: rows of adjacent features, each normalized by its own mean and
// variance or divided by its root mean square, and their gradients. A team of threads processes
// each row.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/core/cuda_launch.cuh"
#include "ops/feature_norm/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

constexpr int kBlockColumns = 32, kBlockRows = 8;  // size of the blocks that sum over rows

/// The rows of a step, divided into chunks for sums over rows.
struct RowChunks : FeatureRows {
  explicit RowChunks(const Request& request)
      : FeatureRows(request.step.attributes, request.inputs[0].shape) {
    constexpr int64_t kFull = 1024, kLeast = 32;  // most blocks; fewest rows of a chunk
    const int64_t most = std::max<int64_t>(1, kFull / ceil_div(features, kBlockColumns));
    chunk = std::max(kLeast, ceil_div(rows, most));
    chunks = ceil_div(rows, chunk);
  }

  int64_t chunk, chunks;
};

/// Returns the sum of term(i) for i < n, computed by a team of kTeam threads, to each of these
/// threads.
template <int kTeam, typename Term>
__device__ double sum_row(int64_t n, Term term) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kTeam) sum += term(i);
  return over_team<kTeam>(sum, Sum{});
}

/// Sums over a chunk of rows with blocks of kBlockColumns x kBlockRows threads, which process
/// kBlockColumns features at a time. `gradients` computes a term of type Gradients::Sums from
/// element `at` of a row.
template <typename Gradients>
__global__ void sum_features(RowChunks r, Gradients gradients, typename Gradients::Sums* parts) {
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
    __syncthreads();  // waits until the sums of the previous columns are read
    own[threadIdx.y * kBlockColumns] = sums;
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    for (int other = 1; other < kBlockRows; ++other) sums += own[other * kBlockColumns];
    parts[blockIdx.y * r.features + i] = sums;
  }
}

/// Adds the sums of all chunks with one thread per feature. `gradients` stores the totals.
template <typename Gradients>
__global__ void add_chunks(RowChunks r, const typename Gradients::Sums* parts,
                           Gradients gradients) {
  for (int64_t i = first_index(); i < r.features; i += index_step()) {
    typename Gradients::Sums sums{};
    for (int64_t chunk = 0; chunk < r.chunks; ++chunk) sums += parts[chunk * r.features + i];
    gradients.store(i, sums);
  }
}

/// The size in bytes of the workspace that sum_over_rows needs.
template <typename Gradients>
size_t workspace_for(const RowChunks& r) {
  return static_cast<size_t>(r.chunks * r.features) * sizeof(typename Gradients::Sums);
}

/// The names of launches.
struct FeatureNames {
  const char *rows, *gradient, *sums, *chunks;
};

template <bool kCentered>
constexpr FeatureNames kFeatureNames =
    kCentered ? FeatureNames{"layer_normalize", "layer_normalize_grad", "layer_normalize_sums",
                             "layer_normalize_chunks"}
              : FeatureNames{"rms_normalize", "rms_normalize_grad", "rms_normalize_sums",
                             "rms_normalize_chunks"};

/// Sums over all rows, by launching sum_features and add_chunks.
template <typename Gradients>
void sum_over_rows(const LaunchState& state, const FeatureNames& names, const RowChunks& r,
                   const Gradients& gradients, std::byte* workspace) {
  auto* parts = reinterpret_cast<typename Gradients::Sums*>(workspace);
  const LaunchShape shape{
      {blocks_for(ceil_div(r.features, kBlockColumns)), static_cast<unsigned>(r.chunks)},
      {kBlockColumns, kBlockRows},
      kBlockColumns * kBlockRows * sizeof(*parts)};
  launch(state, names.sums, shape, sum_features<Gradients>, r, gradients, parts);
  launch(state, names.chunks, shape_for(r.features), add_chunks<Gradients>, r, parts, gradients);
}

__device__ double inverse_deviation(double variance, double epsilon) {
  return 1 / ::sqrt(variance + epsilon);
}

// If kCentered is true, rows have a mean and a variance. Otherwise they are divided by their root
// mean square.

/// The statistics of rows; null if nothing reads them.
template <typename T>
struct RowStatistics {
  T *mean, *variance, *inverse;
};

/// Normalizes rows with a block of kTeam threads per row.
template <bool kCentered, int kTeam, typename T>
__global__ void normalize_features(RowChunks r, const T* x, const T* gamma, const T* beta, T* y,
                                   RowStatistics<T> statistics) {
  const auto n = static_cast<double>(r.features);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T* from = x + row * r.features;
    T* to = y + row * r.features;
    double mean = 0;
    if (kCentered)
      mean =
          sum_row<kTeam>(r.features, [=](int64_t i) { return static_cast<double>(from[i]); }) / n;
    const double squares = sum_row<kTeam>(r.features, [=](int64_t i) {
      const double off = static_cast<double>(from[i]) - mean;
      return off * off;
    });
    const double variance = squares / n;
    const auto center = static_cast<T>(mean);
    const auto inverse = static_cast<T>(inverse_deviation(variance, r.epsilon));
    for (int64_t i = threadIdx.x; i < r.features; i += kTeam) {
      const T normal = (from[i] - center) * inverse * gamma[i];
      to[i] = kCentered ? normal + beta[i] : normal;
    }
    if (threadIdx.x > 0) continue;
    if (statistics.mean) statistics.mean[row] = center;
    if (statistics.variance) statistics.variance[row] = static_cast<T>(variance);
    if (statistics.inverse) statistics.inverse[row] = inverse;
  }
}

/// The inputs of the gradients.
template <bool kCentered, typename T>
struct GivenRows {
  const T *dy, *x;
  const T *means, *spreads;  // one per row; spreads: variances, or 1 / rms

  __device__ T mean(int64_t row) const { return kCentered ? means[row] : T{0}; }
  __device__ double inverse(int64_t row, double epsilon) const {
    const auto spread = static_cast<double>(spreads[row]);
    return kCentered ? inverse_deviation(spread, epsilon) : spread;
  }
};

template <bool kCentered, int kTeam, typename T>
__global__ void differentiate_features(RowChunks r, GivenRows<kCentered, T> given, const T* gamma,
                                       T* dx) {
  const auto n = static_cast<double>(r.features);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T *g = given.dy + row * r.features, *from = given.x + row * r.features;
    const T mean = given.mean(row);
    const double inverse = given.inverse(row, r.epsilon);
    double sum = 0;
    if (kCentered)
      sum = sum_row<kTeam>(r.features,
                           [=](int64_t i) { return static_cast<double>(g[i] * gamma[i]); });
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

/// The gradients of gamma and, for centered rows, of beta. Either may be null.
template <bool kCentered, typename T>
struct AffineGradients {
  using Sums = std::conditional_t<kCentered, FeatureSums, double>;

  __device__ Sums term(int64_t row, int64_t at) const {
    const auto g = static_cast<double>(given.dy[at]);
    const auto off = static_cast<double>(given.x[at] - given.mean(row));
    const double dgamma_term = g * off * given.inverse(row, epsilon);
    if constexpr (kCentered)
      return {dgamma_term, g};
    else
      return dgamma_term;
  }
  __device__ void store(int64_t i, const Sums& sums) const {
    if constexpr (kCentered) {
      if (dgamma) dgamma[i] = static_cast<T>(sums.dgamma);
      if (dbeta) dbeta[i] = static_cast<T>(sums.dbeta);
    } else {
      dgamma[i] = static_cast<T>(sums);
    }
  }

  GivenRows<kCentered, T> given;
  double epsilon;
  T *dgamma, *dbeta;
};

/// Computes y, and the mean and variance of rows or their 1 / rms, from x, gamma and, for centered
/// rows, beta.
template <bool kCentered>
Kernel prepare_features(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r = RowChunks(request)](const Buffers& b, const LaunchState& state) {
      const auto kernel = is_long_row(r.features) ? normalize_features<kCentered, kThreads, T>
                                                  : normalize_features<kCentered, kWarp, T>;
      T* const kept = output<T>(b, 1);
      const RowStatistics<T> statistics = kCentered
                                              ? RowStatistics<T>{kept, output<T>(b, 2), nullptr}
                                              : RowStatistics<T>{nullptr, nullptr, kept};
      launch(state, kFeatureNames<kCentered>.rows, shape_for_teams(r.rows, r.features), kernel, r,
             input<T>(b, 0), input<T>(b, 1), kCentered ? input<T>(b, 2) : nullptr, output<T>(b, 0),
             statistics);
    }};
  });
}

/// Computes dx, dgamma and, for centered rows, dbeta from dy, x, gamma and the statistics of the
/// forward pass.
template <bool kCentered>
Kernel prepare_features_grad(const Request& request) {
  const RowChunks r(request);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r](const Buffers& b, const LaunchState& state) {
              const GivenRows<kCentered, T> given{input<T>(b, 0), input<T>(b, 1), input<T>(b, 3),
                                                  input<T>(b, kCentered ? 4 : 3)};
              const AffineGradients<kCentered, T> gradients{given, r.epsilon, output<T>(b, 1),
                                                            kCentered ? output<T>(b, 2) : nullptr};
              const auto kernel = is_long_row(r.features)
                                      ? differentiate_features<kCentered, kThreads, T>
                                      : differentiate_features<kCentered, kWarp, T>;
              launch(state, kFeatureNames<kCentered>.gradient, shape_for_teams(r.rows, r.features),
                     kernel, r, given, input<T>(b, 2), output<T>(b, 0));
              if (gradients.dgamma || gradients.dbeta)
                sum_over_rows(state, kFeatureNames<kCentered>, r, gradients, b.workspace);
            },
            workspace_for<AffineGradients<kCentered, T>>(r)};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::feature_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"layer_normalize", prepare_features<true>, Order::kOwn},
      {"layer_normalize_grad", prepare_features_grad<true>, Order::kOwn},
      {"rms_normalize", prepare_features<false>, Order::kOwn},
      {"rms_normalize_grad", prepare_features_grad<false>, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
