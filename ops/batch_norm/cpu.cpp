// Batch normalization over channels: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, the
// gradients, and the moving statistics. Sums are computed for pieces (see channels.h), then added
// in order in float64, then combined over ranks.
#include <cmath>

#include "ops/batch_norm/cpu_loops.h"
#include "ops/core/spec.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/channels.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// The sizes of a call and the layout of its workspace: two partial sums for each chunk and
/// channel, then five vectors of C elements.
class Normalization {
 public:
  explicit Normalization(const Request& request)
      : pieces_(view_along(request.inputs[0], axis_of(request))),
        epsilon_(request.step.attributes.get<double>("epsilon")),
        threads_(request.threads) {}

  int64_t channels() const { return pieces_.view.channels; }
  int64_t count() const { return pieces_.view.count(); }
  int64_t chunks() const { return pieces_.chunks; }
  int64_t count_of(int64_t chunk) const { return pieces_.count_of(chunk); }
  size_t workspace() const {
    return static_cast<size_t>(channels()) *
           (static_cast<size_t>(2 * chunks()) * sizeof(double) + 5 * sizeof(float));
  }
  double* partials(std::byte* workspace, int64_t which) const {
    return reinterpret_cast<double*>(workspace) + which * chunks() * channels();
  }
  PerChannel per_channel(std::byte* workspace) const {
    float* first = reinterpret_cast<float*>(partials(workspace, 2));
    const int64_t n = channels();
    return {first, first + n, first + 2 * n, first + 3 * n, first + 4 * n};
  }
  double inverse(float variance) const {
    return 1 / std::sqrt(static_cast<double>(variance) + epsilon_);
  }
  /// The factor of a channel, which is bit-identical in every pass over the channel.
  float factor(float gamma, float variance) const {
    return static_cast<float>(static_cast<double>(gamma) * inverse(variance));
  }

  template <typename Body>
  void for_each_piece(Body body) const {
    parallel_for(threads_, pieces_.pieces(),
                 [&](int64_t i, int) { body(ChannelPiece(pieces_, i)); });
  }
  template <typename Body>
  void for_each_channel(Body body) const {
    constexpr int64_t kChannels = 64;
    for_pieces(threads_, channels(), kChannels, [&](int64_t first, int64_t end) {
      for (int64_t c = first; c < end; ++c) body(c);
    });
  }

 private:
  ChannelPieces pieces_;
  double epsilon_;
  int threads_;
};

/// The constants of the channels starting with `channel`.
PerChannel from_channel(const PerChannel& k, int64_t channel) {
  return {k.center + channel, k.factor + channel, k.term + channel, k.mean + channel,
          k.slope + channel};
}

/// Returns mean and variance of the elements of all chunks. The variance combines the variances
/// within chunks and the variance of their means.
RankChannels::Pair joined(const Normalization& n, const double* means, const double* squares,
                          int64_t c) {
  double sum = 0, within = 0, between = 0;
  for (int64_t chunk = 0; chunk < n.chunks(); ++chunk)
    sum += static_cast<double>(n.count_of(chunk)) * means[chunk * n.channels() + c];
  const double count = static_cast<double>(n.count()), mean = sum / count;
  for (int64_t chunk = 0; chunk < n.chunks(); ++chunk) {
    const double off = means[chunk * n.channels() + c] - mean;
    within += squares[chunk * n.channels() + c];
    between += static_cast<double>(n.count_of(chunk)) * off * off;
  }
  return {mean, (within + between) / count};
}

double total(const Normalization& n, const double* partials, int64_t c) {
  double sum = 0;
  for (int64_t chunk = 0; chunk < n.chunks(); ++chunk) sum += partials[chunk * n.channels() + c];
  return sum;
}

/// Returns true if the next op is a relu, which the kernel then computes as well.
bool starts_with_relu(const Request& request) {
  return !request.step.epilogue.empty() &&
         request.step.epilogue[0].op->epilogue == ops::Epilogue::kRelu;
}

void normalize_all(const Normalization& n, const PerChannel& k, bool rectify, const float* x,
                   float* y) {
  n.for_each_piece([&](const ChannelPiece& p) {
    normalize(p, from_channel(k, p.channel), rectify, x + p.offset, y + p.offset);
  });
}

/// Sets center, factor and term of all channels. Gamma and beta are the operands starting at
/// `first`, mean and variance those starting at `statistics`.
void set_normal(const Normalization& n, const PerChannel& k, const Buffers& b, size_t first,
                size_t statistics) {
  const float *gamma = input<float>(b, first), *beta = input<float>(b, first + 1);
  const float *mean = input<float>(b, statistics), *variance = input<float>(b, statistics + 1);
  n.for_each_channel([&](int64_t c) {
    k.center[c] = mean[c];
    k.factor[c] = n.factor(gamma[c], variance[c]);
    k.term[c] = beta[c];
  });
}

bool is_rectified(const Request& request) { return request.step.attributes.get<bool>("rectified"); }

Kernel prepare_batch_norm(const Request& request) {
  const Normalization n(request);
  const RankChannels ranks(request, n.channels(), n.workspace());
  const bool rectify = starts_with_relu(request);
  Kernel kernel;
  kernel.workspace = ranks.workspace();
  kernel.gathered = ranks.exchanged();
  kernel.fused = rectify ? 1 : 0;
  kernel.launch = [n, ranks, rectify](const Buffers& b, const CallState&) {
    const float *x = input<float>(b, 0), *gamma = input<float>(b, 1), *beta = input<float>(b, 2);
    double *means = n.partials(b.workspace, 0), *squares = n.partials(b.workspace, 1);
    n.for_each_piece([&](const ChannelPiece& p) {
      const int64_t at = p.chunk * n.channels() + p.channel;
      (p.inner == 1 ? moments_of_rows : moments_of_runs)(p, x + p.offset, means + at, squares + at);
    });
    const auto own = [&](int64_t c) { return joined(n, means, squares, c); };
    ranks.exchange(b.workspace, own);
    const PerChannel k = n.per_channel(b.workspace);
    float *mean = output<float>(b, 1), *variance = output<float>(b, 2);
    n.for_each_channel([&](int64_t c) {
      const auto [exact_mean, exact_variance] = ranks.moments(b.workspace, c, own);
      const auto rounded = static_cast<float>(exact_variance);
      k.center[c] = static_cast<float>(exact_mean);
      k.factor[c] = n.factor(gamma[c], rounded);
      k.term[c] = beta[c];
      if (mean) mean[c] = k.center[c];
      if (variance) variance[c] = rounded;
    });
    normalize_all(n, k, rectify, x, output<float>(b, 0));
  };
  return kernel;
}

Kernel prepare_batch_norm_predict(const Request& request) {
  const Normalization n(request);
  const bool rectify = starts_with_relu(request);
  Kernel kernel;
  kernel.workspace = n.workspace();
  kernel.fused = rectify ? 1 : 0;
  kernel.launch = [n, rectify](const Buffers& b, const CallState&) {
    const PerChannel k = n.per_channel(b.workspace);
    set_normal(n, k, b, 1, 3);
    normalize_all(n, k, rectify, input<float>(b, 0), output<float>(b, 0));
  };
  return kernel;
}

Kernel prepare_batch_norm_grad_affine(const Request& request) {
  const Normalization n(request);
  Kernel kernel;
  kernel.workspace = n.workspace();
  kernel.launch = [n, rectified = is_rectified(request)](const Buffers& b, const CallState&) {
    const float *dy = input<float>(b, 0), *x = input<float>(b, 1);
    const PerChannel k = n.per_channel(b.workspace);
    set_normal(n, k, b, 2, 4);
    double *sums = n.partials(b.workspace, 0), *products = n.partials(b.workspace, 1);
    n.for_each_piece([&](const ChannelPiece& p) {
      const int64_t at = p.chunk * n.channels() + p.channel;
      gradients_of(p, from_channel(k, p.channel), rectified, dy + p.offset, x + p.offset, sums + at,
                   products + at);
    });
    float *dgamma = output<float>(b, 0), *dbeta = output<float>(b, 1);
    const float* variance = input<float>(b, 5);
    n.for_each_channel([&](int64_t c) {
      dgamma[c] = static_cast<float>(total(n, products, c) * n.inverse(variance[c]));
      dbeta[c] = static_cast<float>(total(n, sums, c));
    });
  };
  return kernel;
}

Kernel prepare_batch_norm_grad(const Request& request) {
  const Normalization n(request);
  const RankChannels ranks(request, n.channels(), n.workspace());
  Kernel kernel;
  kernel.workspace = ranks.workspace();
  kernel.gathered = ranks.exchanged();
  kernel.launch = [n, ranks, rectified = is_rectified(request)](const Buffers& b,
                                                                const CallState&) {
    const float *dy = input<float>(b, 0), *x = input<float>(b, 1);
    const float *variance = input<float>(b, 5), *dgamma = input<float>(b, 6),
                *dbeta = input<float>(b, 7);
    const auto own = [&](int64_t c) {
      return RankChannels::Pair{static_cast<double>(dgamma[c]), static_cast<double>(dbeta[c])};
    };
    ranks.exchange(b.workspace, own);
    const PerChannel k = n.per_channel(b.workspace);
    set_normal(n, k, b, 2, 4);
    const auto count = static_cast<double>(n.count() * ranks.count());
    n.for_each_channel([&](int64_t c) {
      const auto [slope, mean] = ranks.sums(b.workspace, c, own);
      k.mean[c] = static_cast<float>(mean / count);
      k.slope[c] = static_cast<float>(n.inverse(variance[c]) * slope / count);
    });
    float* dx = output<float>(b, 0);
    n.for_each_piece([&](const ChannelPiece& p) {
      differentiate(p, from_channel(k, p.channel), rectified, dy + p.offset, x + p.offset,
                    dx + p.offset);
    });
  };
  return kernel;
}

/// Updates the moving averages with the statistics of one batch.
Kernel prepare_move_statistics(const Request& request) {
  const double momentum = request.step.attributes.get<double>("momentum");
  const double unbias = request.step.attributes.get<double>("unbias");
  return {[=, n = request.inputs[0].shape.elements()](const Buffers& b, const CallState&) {
    const auto moved = [momentum](float moving, double batch) {
      return static_cast<float>(momentum * static_cast<double>(moving) + (1 - momentum) * batch);
    };
    for (int64_t c = 0; c < n; ++c) {
      const float mean = moved(input<float>(b, 2)[c], static_cast<double>(input<float>(b, 0)[c]));
      const float variance =
          moved(input<float>(b, 3)[c], unbias * static_cast<double>(input<float>(b, 1)[c]));
      output<float>(b, 0)[c] = mean;
      output<float>(b, 1)[c] = variance;
    }
  }};
}

}  // namespace

std::span<const KernelEntry> batch_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"batch_norm", prepare_batch_norm, Layouts::kSame},
      {"batch_norm_predict", prepare_batch_norm_predict, Layouts::kSame},
      {"batch_norm_grad_affine", prepare_batch_norm_grad_affine, Layouts::kSame},
      {"batch_norm_grad", prepare_batch_norm_grad, Layouts::kSame},
      {"move_statistics", prepare_move_statistics},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
