// CUDA kernels of group_normalize and its gradient. The channels of each image form groups, and
// each group is normalized by its mean and variance. Only the shape determines how sums are split
// into parts; the parts are added in fixed trees, in float64.
#include <cmath>

#include "ops/core/cuda_launch.cuh"
#include "ops/group_norm/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/channels.cuh"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {
namespace {

/// Returns how many of the n elements of a row each team handles, so that enough blocks fill a
/// large device and no block has too little work.
int64_t part_of(int64_t n, int64_t rows) {
  constexpr int64_t kFull = 1024, kLeast = 4096;
  return std::max(kLeast, ceil_div(n, ceil_div(kFull, rows)));
}

struct Groups : ChannelGroups {
  explicit Groups(const Request& request)
      : ChannelGroups(request.step.attributes, request.inputs[0].shape) {}

  // The number of elements of a part of a row, which one team handles, and the number of parts.
  int64_t part = part_of(elements, rows), parts = ceil_div(elements, part);
  // For sums over a channel, the number of elements of a chunk, and the number of chunks.
  int64_t chunk = part_of(inner, images*channels), chunks = ceil_div(inner, chunk);
  Divider by_inner{inner};

  __device__ double inverse(double variance) const { return 1 / ::sqrt(variance + epsilon); }
  /// Returns the channel, within its group, of element i of a row.
  __device__ int64_t channel_of(int64_t i) const {
    if (elements < kNarrow) return by_inner.divide(static_cast<int32_t>(i)).quotient;
    return by_inner.divide(i).quotient;
  }
};

struct Stretch {
  int64_t first, end;
};

/// Returns the range of the n elements that this block handles, which depends on blockIdx.y.
__device__ inline Stretch own_range(int64_t n, int64_t part) {
  const int64_t first = blockIdx.y * part, end = first + part;
  return {first, end < n ? end : n};
}

/// Returns the sums of both components of term(i) over a range. A team of kTeam threads computes
/// them, and each thread gets both sums.
template <int kTeam, typename Term>
__device__ Pair sum_range(Stretch range, Term term) {
  Pair sums{0, 0};
  for (int64_t i = range.first + threadIdx.x; i < range.end; i += kTeam) {
    const Pair more = term(i);
    sums.a += more.a;
    sums.b += more.b;
  }
  return {over_team<kTeam>(sums.a, Sum{}), over_team<kTeam>(sums.b, Sum{})};
}

/// Returns the sums of x - x0 and of its square, where x0 is the first element of the row. The
/// shift by x0 keeps the variance from being a small difference of large numbers.
template <int kTeam, typename T>
__device__ Pair sum_distances(Stretch range, const T* x) {
  const auto x0 = static_cast<double>(x[0]);
  return sum_range<kTeam>(range, [=](int64_t i) -> Pair {
    const double off = static_cast<double>(x[i]) - x0;
    return {off, off * off};
  });
}

/// Computes the sums of each part of each row. One team handles one part.
template <int kTeam, typename T>
__global__ void sum_parts(Groups g, const T* x, Pair* parts) {
  for (int64_t row = blockIdx.x; row < g.rows; row += gridDim.x) {
    const Pair sums = sum_distances<kTeam>(own_range(g.elements, g.part), x + row * g.elements);
    if (threadIdx.x == 0) parts[row * g.parts + blockIdx.y] = sums;
  }
}

template <typename T>
struct Normal {
  T *y, *means, *variances;  // means and variances may be null
};

/// Normalizes rows; one team handles one part of a row. If `parts` is null, each row has a single
/// part, whose sums the team computes itself.
template <int kTeam, typename T>
__global__ void normalize_rows(Groups g, const Pair* parts, const T* x, const T* gamma,
                               const T* beta, Normal<T> to) {
  const auto n = static_cast<double>(g.elements);
  for (int64_t row = blockIdx.x; row < g.rows; row += gridDim.x) {
    const T* from = x + row * g.elements;
    const Stretch own = own_range(g.elements, g.part);
    const Pair sums =
        parts ? sum_range<kTeam>({0, g.parts}, [=](int64_t i) { return parts[row * g.parts + i]; })
              : sum_distances<kTeam>(own, from);
    const double off = sums.a / n, found = sums.b / n - off * off;
    const double variance = found < 0 ? 0 : found;
    const auto center = static_cast<T>(static_cast<double>(from[0]) + off);
    const auto inverse = static_cast<T>(g.inverse(variance));
    const int64_t c0 = g.first_channel(row);
    for (int64_t i = own.first + threadIdx.x; i < own.end; i += kTeam) {
      const int64_t c = c0 + g.channel_of(i);
      to.y[row * g.elements + i] = (from[i] - center) * (inverse * gamma[c]) + beta[c];
    }
    if (threadIdx.x > 0 || blockIdx.y > 0) continue;
    if (to.means) to.means[row] = center;
    if (to.variances) to.variances[row] = static_cast<T>(variance);
  }
}

/// Sums dy and dy (x - mean) for each chunk of each channel of each image. One team handles one
/// chunk.
template <int kTeam, typename T>
__global__ void sum_channels(Groups g, const T* dy, const T* x, const T* means, Pair* parts) {
  for (int64_t c = blockIdx.x; c < g.images * g.channels; c += gridDim.x) {
    const T *gradient = dy + c * g.inner, *from = x + c * g.inner;
    const auto mean = static_cast<double>(means[c / g.width]);
    const Pair sums = sum_range<kTeam>(own_range(g.inner, g.chunk), [=](int64_t i) -> Pair {
      const auto term = static_cast<double>(gradient[i]);
      return {term, term * (static_cast<double>(from[i]) - mean)};
    });
    if (threadIdx.x == 0) parts[c * g.chunks + blockIdx.y] = sums;
  }
}

/// Does the same as sum_channels with one thread for each channel of each image, for channels with
/// few elements.
template <typename T>
__global__ void sum_short_channels(Groups g, const T* dy, const T* x, const T* means, Pair* parts) {
  for (int64_t c = first_index(); c < g.images * g.channels; c += index_step()) {
    const auto mean = static_cast<double>(means[c / g.width]);
    Pair sums{0, 0};
    for (int64_t i = c * g.inner; i < (c + 1) * g.inner; ++i) {
      const auto term = static_cast<double>(dy[i]);
      sums.a += term;
      sums.b += term * (static_cast<double>(x[i]) - mean);
    }
    parts[c] = sums;
  }
}

/// Computes dx = inverse (gamma dy - term - (x - mean) slope). One team handles one part of a row.
template <int kTeam, typename T>
__global__ void differentiate_rows(Groups g, const Pair* parts, const T* dy, const T* x,
                                   const T* gamma, const T* means, const T* variances, T* dx) {
  const auto n = static_cast<double>(g.elements);
  for (int64_t row = blockIdx.x; row < g.rows; row += gridDim.x) {
    const int64_t c0 = g.first_channel(row), first = row * g.width * g.chunks;
    const Pair sums = sum_range<kTeam>({0, g.width * g.chunks}, [=](int64_t i) -> Pair {
      const auto factor = static_cast<double>(gamma[c0 + i / g.chunks]);
      return {factor * parts[first + i].a, factor * parts[first + i].b};
    });
    const double inverse = g.inverse(static_cast<double>(variances[row]));
    const T mean = means[row];
    const auto factor = static_cast<T>(inverse), term = static_cast<T>(sums.a / n);
    const auto slope = static_cast<T>(sums.b / n * inverse * inverse);
    const Stretch own = own_range(g.elements, g.part);
    for (int64_t i = own.first + threadIdx.x; i < own.end; i += kTeam) {
      const int64_t at = row * g.elements + i;
      dx[at] = factor * (dy[at] * gamma[c0 + g.channel_of(i)] - term - (x[at] - mean) * slope);
    }
  }
}

/// Adds up the sums of the chunks of each channel over all images. One warp handles one channel.
/// Either result may be null.
template <typename T>
__global__ void add_images(Groups g, const Pair* parts, const T* variances, T* dgamma, T* dbeta) {
  for (int64_t c = blockIdx.x; c < g.channels; c += gridDim.x) {
    const Pair sums = sum_range<kWarp>({0, g.images * g.chunks}, [=](int64_t i) -> Pair {
      const int64_t channel = i / g.chunks * g.channels + c;
      const Pair part = parts[channel * g.chunks + i % g.chunks];
      return {part.a, part.b * g.inverse(static_cast<double>(variances[channel / g.width]))};
    });
    if (threadIdx.x > 0) continue;
    if (dgamma) dgamma[c] = static_cast<T>(sums.b);
    if (dbeta) dbeta[c] = static_cast<T>(sums.a);
  }
}

Kernel prepare_group_normalize(const Request& request) {
  const Groups g(request);
  const bool whole = g.parts == 1;
  const size_t workspace = whole ? 0 : static_cast<size_t>(g.rows * g.parts) * sizeof(Pair);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[g, whole](const Buffers& b, const LaunchState& state) {
              const LaunchShape shape = shape_for_teams(g.rows, g.elements, g.parts);
              auto* parts = whole ? nullptr : reinterpret_cast<Pair*>(b.workspace);
              const T* x = input<T>(b, 0);
              if (!whole)
                launch(state, "group_normalize_sums", shape, sum_parts<kThreads, T>, g, x, parts);
              const auto kernel =
                  is_long_row(g.elements) ? normalize_rows<kThreads, T> : normalize_rows<kWarp, T>;
              launch(state, "group_normalize", shape, kernel, g, parts, x, input<T>(b, 1),
                     input<T>(b, 2), Normal<T>{output<T>(b, 0), output<T>(b, 1), output<T>(b, 2)});
            },
            workspace};
  });
}

Kernel prepare_group_normalize_grad(const Request& request) {
  const Groups g(request);
  const int64_t channels = g.images * g.channels;
  const size_t workspace = static_cast<size_t>(channels * g.chunks) * sizeof(Pair);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[g, channels](const Buffers& b, const LaunchState& state) {
              const T *dy = input<T>(b, 0), *x = input<T>(b, 1), *gamma = input<T>(b, 2);
              const T *means = input<T>(b, 3), *variances = input<T>(b, 4);
              T *dgamma = output<T>(b, 1), *dbeta = output<T>(b, 2);
              auto* parts = reinterpret_cast<Pair*>(b.workspace);
              const char* const sums = "group_normalize_sums";
              if (g.inner < kWarp)
                launch(state, sums, shape_for(channels), sum_short_channels<T>, g, dy, x, means,
                       parts);
              else
                launch(state, sums, shape_for_teams(channels, g.inner, g.chunks),
                       is_long_row(g.inner) ? sum_channels<kThreads, T> : sum_channels<kWarp, T>, g,
                       dy, x, means, parts);
              const auto kernel = is_long_row(g.elements) ? differentiate_rows<kThreads, T>
                                                          : differentiate_rows<kWarp, T>;
              launch(state, "group_normalize_grad", shape_for_teams(g.rows, g.elements, g.parts),
                     kernel, g, parts, dy, x, gamma, means, variances, output<T>(b, 0));
              if (!dgamma && !dbeta) return;
              launch(state, "group_normalize_images", {{blocks_for(g.channels)}, {kWarp}},
                     add_images<T>, g, parts, variances, dgamma, dbeta);
            },
            workspace};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::group_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"group_normalize", prepare_group_normalize, Order::kOwn},
      {"group_normalize_grad", prepare_group_normalize_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
