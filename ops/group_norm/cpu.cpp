// CPU kernels of group_normalize and its gradient. The channels of each image form groups, and each
// group is normalized by its mean and variance. Both kernels pass over memory twice: once for the
// sums and once for the result.
#include <cmath>

#include "ops/group_norm/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/block_sums.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Adjacent channels of one group.
struct ChannelRun {
  int64_t row = 0, part = 0;  // the group, counted over all images; the run within the group
  int64_t channel = 0;        // the first channel, counted over all images
  int64_t count = 0;
};

struct Groups : ChannelGroups {
  explicit Groups(const Request& request)
      : ChannelGroups(request.step.attributes, request.inputs[0].shape), threads(request.threads) {
    // If groups are few and large, several threads share one group.
    constexpr int64_t kMany = 32;
    part = rows < kMany ? std::clamp<int64_t>(kPiece / inner, 1, width) : width;
  }

  int64_t parts() const { return ceil_div(width, part); }
  double inverse(double variance) const { return 1 / std::sqrt(variance + epsilon); }

  ChannelRun run(int64_t row, int64_t i) const {
    return {row, i, row * width + i * part, std::min(part, width - i * part)};
  }

  /// Calls add(run) for the runs of each row, then finish(row), then apply(run) for its runs. A row
  /// that threads do not share is still in the cache when it is read again.
  template <typename Add, typename Finish, typename Apply>
  void for_rows(Add add, Finish finish, Apply apply) const {
    if (parts() == 1) {
      const int64_t piece = std::max<int64_t>(1, kPiece / elements);
      for_pieces(threads, rows, piece, [&](int64_t first, int64_t end) {
        for (int64_t row = first; row < end; ++row) {
          add(run(row, 0));
          finish(row);
          apply(run(row, 0));
        }
      });
      return;
    }
    const auto for_runs = [&](auto body) {
      parallel_for(threads, rows * parts(),
                   [&](int64_t i, int) { body(run(i / parts(), i % parts())); });
    };
    for_runs(add);
    for (int64_t row = 0; row < rows; ++row) finish(row);
    for_runs(apply);
  }

  int threads;
  int64_t part = 1;  // channels per run
};

/// The number of elements, their mean, and the sum of their squared distances from the mean.
struct RunMoments {
  double count = 0, mean = 0, squares = 0;
};

[[gnu::always_inline]] inline void join(RunMoments& all, const RunMoments& more) {
  const double count = all.count + more.count, off = more.mean - all.mean;
  all.mean += off * more.count / count;
  all.squares += more.squares + off * off * all.count * more.count / count;
  all.count = count;
}

/// Computes the moments of x [n] block by block, so that each block is read from memory only once.
FLOW_VECTORIZED void find_moments(const float* x, int64_t n, RunMoments& found) {
  constexpr int64_t kBlock = 8 * kSumBlock;  // 16 KiB
  found = {};
  for (int64_t first = 0; first < n; first += kBlock, x += kBlock) {
    const int64_t block = std::min(kBlock, n - first);
    const auto count = static_cast<double>(block);
    double sum = 0, squares = 0;
    add_terms(block, sum, [=](int64_t i) { return x[i]; });
    const auto center = static_cast<float>(sum / count);
    add_terms(block, squares, [=](int64_t i) { return (x[i] - center) * (x[i] - center); });
    join(found, {count, sum / count, squares});
  }
}

/// Values that all elements of a row share. Only the gradient uses `term` and `slope`.
struct RowConstants {
  float center, inverse, term, slope;
};

/// Computes y = (x - center) inverse gamma + beta for `count` channels.
FLOW_VECTORIZED void normalize_channels(const float* x, int64_t count, int64_t inner,
                                        const RowConstants& row, const float* gamma,
                                        const float* beta, float* y) {
  const float center = row.center, inverse = row.inverse;
  if (inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) y[c] = (x[c] - center) * (inverse * gamma[c]) + beta[c];
    return;
  }
  for (int64_t c = 0; c < count; ++c, x += inner, y += inner) {
    const float factor = inverse * gamma[c], added = beta[c];
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) y[i] = (x[i] - center) * factor + added;
  }
}

/// Computes for each of `count` channels the sum of dy and the sum of dy (x - center).
FLOW_VECTORIZED void sum_channels(const float* dy, const float* x, int64_t count, int64_t inner,
                                  float center, float* sums, float* products) {
  if (inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) {
      sums[c] = dy[c];
      products[c] = dy[c] * (x[c] - center);
    }
    return;
  }
  for (int64_t c = 0; c < count; ++c, dy += inner, x += inner) {
    double sum = 0, product = 0;
    // Blocks are small enough to be read from memory only once.
    for (int64_t first = 0; first < inner; first += kSumBlock) {
      const int64_t block = std::min(kSumBlock, inner - first);
      const float *g = dy + first, *from = x + first;
      add_terms(block, sum, [=](int64_t i) { return g[i]; });
      add_terms(block, product, [=](int64_t i) { return g[i] * (from[i] - center); });
    }
    sums[c] = static_cast<float>(sum);
    products[c] = static_cast<float>(product);
  }
}

/// Computes dx = inverse gamma dy - term - (x - center) slope for `count` channels.
FLOW_VECTORIZED void differentiate_channels(const float* dy, const float* x, int64_t count,
                                            int64_t inner, const RowConstants& row,
                                            const float* gamma, float* dx) {
  const float center = row.center, inverse = row.inverse, term = row.term, slope = row.slope;
  if (inner == 1) {
#pragma omp simd
    for (int64_t c = 0; c < count; ++c)
      dx[c] = inverse * gamma[c] * dy[c] - term - (x[c] - center) * slope;
    return;
  }
  for (int64_t c = 0; c < count; ++c, dy += inner, x += inner, dx += inner) {
    const float factor = inverse * gamma[c];
#pragma omp simd
    for (int64_t i = 0; i < inner; ++i) dx[i] = factor * dy[i] - term - (x[i] - center) * slope;
  }
}

/// The layout of the workspace: the constants of each row, then the sums of each channel of each
/// image.
struct ChannelSums {
  ChannelSums(const Groups& g, std::byte* workspace)
      : rows(reinterpret_cast<RowConstants*>(workspace)),
        sums(reinterpret_cast<float*>(rows + g.rows)),
        products(sums + g.images * g.channels) {}
  static size_t bytes(const Groups& g) {
    return static_cast<size_t>(g.rows) * sizeof(RowConstants) +
           static_cast<size_t>(2 * g.images * g.channels) * sizeof(float);
  }

  RowConstants* rows;
  float *sums, *products;
};

/// Computes the constants of a row from the sums of its channels.
RowConstants gradient_constants(const Groups& g, const ChannelSums& found, int64_t row,
                                const float* gamma, float mean, float variance) {
  const int64_t first = row * g.width;
  double sum = 0, product = 0;
  for (int64_t c = 0; c < g.width; ++c) {
    const auto factor = static_cast<double>(gamma[g.first_channel(row) + c]);
    sum += factor * static_cast<double>(found.sums[first + c]);
    product += factor * static_cast<double>(found.products[first + c]);
  }
  const auto n = static_cast<double>(g.elements);
  const double inverse = g.inverse(static_cast<double>(variance));
  return {mean, static_cast<float>(inverse), static_cast<float>(inverse * sum / n),
          static_cast<float>(inverse * inverse * inverse * product / n)};
}

/// Computes dgamma and dbeta of channels [first, end) by adding up the images in order. Either
/// result may be null.
void add_images(const Groups& g, const ChannelSums& found, int64_t first, int64_t end,
                float* dgamma, float* dbeta) {
  for (int64_t c = first; c < end; ++c) {
    double factor = 0, term = 0;
    for (int64_t image = 0; image < g.images; ++image) {
      const int64_t at = image * g.channels + c;
      factor += static_cast<double>(found.products[at]) *
                static_cast<double>(found.rows[at / g.width].inverse);
      term += static_cast<double>(found.sums[at]);
    }
    if (dgamma) dgamma[c] = static_cast<float>(factor);
    if (dbeta) dbeta[c] = static_cast<float>(term);
  }
}

Kernel prepare_group_normalize(const Request& request) {
  const Groups g(request);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(g.rows) *
                     (static_cast<size_t>(g.parts()) * sizeof(RunMoments) + sizeof(RowConstants));
  kernel.launch = [g](const Buffers& b, const CallState&) {
    const float *x = input<float>(b, 0), *gamma = input<float>(b, 1), *beta = input<float>(b, 2);
    float *y = output<float>(b, 0), *mean = output<float>(b, 1), *variance = output<float>(b, 2);
    auto* moments = reinterpret_cast<RunMoments*>(b.workspace);
    auto* constants = reinterpret_cast<RowConstants*>(moments + g.rows * g.parts());
    g.for_rows(
        [&](const ChannelRun& run) {
          find_moments(x + run.channel * g.inner, run.count * g.inner,
                       moments[run.row * g.parts() + run.part]);
        },
        [&](int64_t row) {
          RunMoments all;
          for (int64_t i = 0; i < g.parts(); ++i) join(all, moments[row * g.parts() + i]);
          const double biased = all.squares / all.count;
          constants[row] = {static_cast<float>(all.mean), static_cast<float>(g.inverse(biased)), 0,
                            0};
          if (mean) mean[row] = constants[row].center;
          if (variance) variance[row] = static_cast<float>(biased);
        },
        [&](const ChannelRun& run) {
          const int64_t c = run.channel % g.channels;
          normalize_channels(x + run.channel * g.inner, run.count, g.inner, constants[run.row],
                             gamma + c, beta + c, y + run.channel * g.inner);
        });
  };
  return kernel;
}

Kernel prepare_group_normalize_grad(const Request& request) {
  const Groups g(request);
  Kernel kernel;
  kernel.workspace = ChannelSums::bytes(g);
  kernel.launch = [g](const Buffers& b, const CallState&) {
    const float *dy = input<float>(b, 0), *x = input<float>(b, 1), *gamma = input<float>(b, 2);
    const float *mean = input<float>(b, 3), *variance = input<float>(b, 4);
    float *dx = output<float>(b, 0), *dgamma = output<float>(b, 1), *dbeta = output<float>(b, 2);
    const ChannelSums found(g, b.workspace);
    g.for_rows(
        [&](const ChannelRun& run) {
          const int64_t at = run.channel * g.inner;
          sum_channels(dy + at, x + at, run.count, g.inner, mean[run.row], found.sums + run.channel,
                       found.products + run.channel);
        },
        [&](int64_t row) {
          found.rows[row] = gradient_constants(g, found, row, gamma, mean[row], variance[row]);
        },
        [&](const ChannelRun& run) {
          const int64_t at = run.channel * g.inner;
          differentiate_channels(dy + at, x + at, run.count, g.inner, found.rows[run.row],
                                 gamma + run.channel % g.channels, dx + at);
        });
    constexpr int64_t kChannels = 256;
    for_pieces(g.threads, g.channels, kChannels, [&](int64_t first, int64_t end) {
      add_images(g, found, first, end, dgamma, dbeta);
    });
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> group_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"group_normalize", prepare_group_normalize},
      {"group_normalize_grad", prepare_group_normalize_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
