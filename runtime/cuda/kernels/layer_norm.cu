// layer_normalize: rows of adjacent features, each normalised by its own mean and variance; and its
// gradients. A team of threads has a row.
#include <cmath>

#include "runtime/base/ceil_div.h"
#include "runtime/cuda/kernels/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

constexpr int kColumns = 32, kRowsOfThreads = 8;  // of a block that sums over rows

struct Rows {
  int64_t rows = 1, features = 1;
  double epsilon = 0;
  int64_t chunk = 1, chunks = 1;  // rows, of sums over them

  __device__ double inverse(double variance) const { return 1 / ::sqrt(variance + epsilon); }
};

/// The sum of term(i), i < n, over a team of kTeam threads; every thread gets it.
template <int kTeam, typename Term>
__device__ double sum_row(int64_t n, Term term) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kTeam) sum += term(i);
  return over_team<kTeam>(sum, Sum{});
}

/// A block of kTeam threads for each row.
template <int kTeam, typename T>
__global__ void normalise_rows(Rows r, const T* x, const T* gamma, const T* beta, T* y, T* means,
                               T* variances) {
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
    const auto center = static_cast<T>(mean), inverse = static_cast<T>(r.inverse(variance));
    for (int64_t i = threadIdx.x; i < r.features; i += kTeam)
      to[i] = (from[i] - center) * inverse * gamma[i] + beta[i];
    if (threadIdx.x > 0) continue;
    if (means) means[row] = center;
    if (variances) variances[row] = static_cast<T>(variance);
  }
}

template <int kTeam, typename T>
__global__ void differentiate_rows(Rows r, const T* dy, const T* x, const T* gamma, const T* means,
                                   const T* variances, T* dx) {
  const auto n = static_cast<double>(r.features);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T *g = dy + row * r.features, *from = x + row * r.features;
    const T mean = means[row];
    const double inverse = r.inverse(static_cast<double>(variances[row]));
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
};

/// A block of kColumns x kRowsOfThreads threads for kColumns features and a chunk of rows.
template <typename T>
__global__ void sum_features(Rows r, const T* dy, const T* x, const T* means, const T* variances,
                             FeatureSums* parts) {
  FeatureSums* own = shared<FeatureSums>() + threadIdx.x;
  const int64_t first = blockIdx.y * r.chunk;
  const int64_t end = first + r.chunk < r.rows ? first + r.chunk : r.rows;
  for (int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns; column < r.features;
       column += static_cast<int64_t>(gridDim.x) * kColumns) {
    const int64_t i = column + threadIdx.x;
    const bool any = i < r.features;
    FeatureSums sums{0, 0};
    for (int64_t row = first + threadIdx.y; any && row < end; row += kRowsOfThreads) {
      const auto g = static_cast<double>(dy[row * r.features + i]);
      const auto off = static_cast<double>(x[row * r.features + i] - means[row]);
      sums.dgamma += g * off * r.inverse(static_cast<double>(variances[row]));
      sums.dbeta += g;
    }
    __syncthreads();  // the sums of the columns before
    own[threadIdx.y * kColumns] = sums;
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    for (int other = 1; other < kRowsOfThreads; ++other) {
      sums.dgamma += own[other * kColumns].dgamma;
      sums.dbeta += own[other * kColumns].dbeta;
    }
    parts[blockIdx.y * r.features + i] = sums;
  }
}

/// A thread for each feature. Either result may be null.
template <typename T>
__global__ void add_chunks(Rows r, const FeatureSums* parts, T* dgamma, T* dbeta) {
  for (int64_t i = first_index(); i < r.features; i += index_step()) {
    FeatureSums sums{0, 0};
    for (int64_t chunk = 0; chunk < r.chunks; ++chunk) {
      sums.dgamma += parts[chunk * r.features + i].dgamma;
      sums.dbeta += parts[chunk * r.features + i].dbeta;
    }
    if (dgamma) dgamma[i] = static_cast<T>(sums.dgamma);
    if (dbeta) dbeta[i] = static_cast<T>(sums.dbeta);
  }
}

Rows rows_of(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  Rows r{x.elements(0, axis), x.elements(axis, x.rank()), attribute<double>(request, "epsilon")};
  constexpr int64_t kFull = 1024, kLeast = 32;  // blocks; rows of a chunk
  const int64_t most = std::max<int64_t>(1, kFull / ceil_div(r.features, kColumns));
  r.chunk = std::max(kLeast, ceil_div(r.rows, most));
  r.chunks = ceil_div(r.rows, r.chunk);
  return r;
}

bool is_short(const Rows& r) { return r.features <= 1024; }

LaunchShape row_shape(const Rows& r) {
  const unsigned threads = is_short(r) ? kWarp : kThreads;
  return {{blocks_for(r.rows)}, {threads}, threads / kWarp * sizeof(double)};
}

LaunchShape feature_shape(const Rows& r) {
  return {{blocks_for(ceil_div(r.features, kColumns)), static_cast<unsigned>(r.chunks)},
          {kColumns, kRowsOfThreads},
          kColumns * kRowsOfThreads * sizeof(FeatureSums)};
}

Kernel prepare_layer_normalize(const Request& request) {
  const Rows r = rows_of(request);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r](const Buffers& b, const LaunchState& state) {
      const auto kernel = is_short(r) ? normalise_rows<kWarp, T> : normalise_rows<kThreads, T>;
      launch(state.driver, state.stream, "layer_normalize", row_shape(r), kernel, r, input<T>(b, 0),
             input<T>(b, 1), input<T>(b, 2), output<T>(b, 0), output<T>(b, 1), output<T>(b, 2));
    }};
  });
}

Kernel prepare_layer_normalize_grad(const Request& request) {
  const Rows r = rows_of(request);
  const size_t workspace = static_cast<size_t>(r.chunks * r.features) * sizeof(FeatureSums);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[r](const Buffers& b, const LaunchState& state) {
              const T *dy = input<T>(b, 0), *x = input<T>(b, 1);
              const T *means = input<T>(b, 3), *variances = input<T>(b, 4);
              T *dgamma = output<T>(b, 1), *dbeta = output<T>(b, 2);
              const auto kernel =
                  is_short(r) ? differentiate_rows<kWarp, T> : differentiate_rows<kThreads, T>;
              launch(state.driver, state.stream, "layer_normalize_grad", row_shape(r), kernel, r,
                     dy, x, input<T>(b, 2), means, variances, output<T>(b, 0));
              if (!dgamma && !dbeta) return;
              auto* parts = reinterpret_cast<FeatureSums*>(b.workspace);
              launch(state.driver, state.stream, "layer_normalize_sums", feature_shape(r),
                     sum_features<T>, r, dy, x, means, variances, parts);
              launch(state.driver, state.stream, "layer_normalize_chunks", shape_for(r.features),
                     add_chunks<T>, r, parts, dgamma, dbeta);
            },
            workspace};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::layer_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"layer_normalize", prepare_layer_normalize},
      {"layer_normalize_grad", prepare_layer_normalize_grad},
  };
  return kKernels;
}

}  // namespace flow::cuda
