// Reference kernels of batch normalization over (outer, channels, inner), its gradients and its
// moving statistics.
#include <cmath>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/channels.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

struct Normalization {
  explicit Normalization(const Request& request)
      : view(view_along(request.inputs[0], axis_of(request))),
        epsilon(request.step.attributes.get<double>("epsilon")) {
    const auto* given = request.step.attributes.find("rectified");
    rectified = given && std::get<bool>(*given);
  }

  double inverse(double variance) const { return 1 / std::sqrt(variance + epsilon); }
  double normal(double x, double mean, double variance, double gamma, double beta) const {
    return (x - mean) * inverse(variance) * gamma + beta;
  }
  /// Returns element i of dy, which belongs to channel c, or 0 if a relu followed and its input was
  /// 0 or less.
  template <typename T>
  double gradient(const Buffers& b, int64_t c, int64_t i) const {
    const double y = normal(double_at<T>(b, 1, i), double_at<T>(b, 4, c), double_at<T>(b, 5, c),
                            double_at<T>(b, 2, c), double_at<T>(b, 3, c));
    return rectified && y <= 0 ? 0 : double_at<T>(b, 0, i);
  }

  /// Calls f(i) with the index of each element of channel c.
  template <typename F>
  void for_channel(int64_t c, F f) const {
    for (int64_t outer = 0; outer < view.outer; ++outer)
      for (int64_t i = 0; i < view.inner; ++i) f((outer * view.channels + c) * view.inner + i);
  }

  ChannelView view;
  double epsilon;
  bool rectified;
};

/// Returns a kernel that calls body(n, T{}, buffers, c) for each channel c.
template <typename Body>
Kernel for_each_channel(const Request& request, Body body) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = Normalization(request), body](const Buffers& b, const CallState&) {
      for (int64_t c = 0; c < n.view.channels; ++c) body(n, T{}, b, c);
    };
  });
  return kernel;
}

/// Returns mean and variance of this rank's elements of channel c.
template <typename T>
RankChannels::Pair moments_of(const Normalization& n, const Buffers& b, int64_t c) {
  const auto count = static_cast<double>(n.view.count());
  double mean = 0, variance = 0;
  n.for_channel(c, [&](int64_t i) { mean += double_at<T>(b, 0, i) / count; });
  n.for_channel(c, [&](int64_t i) {
    variance += (double_at<T>(b, 0, i) - mean) * (double_at<T>(b, 0, i) - mean) / count;
  });
  return {mean, variance};
}

template <typename T>
void normalize(const Normalization& n, const Buffers& b, int64_t c, RankChannels::Pair moments) {
  const double mean = moments[0], variance = moments[1];
  if (T* means = output<T>(b, 1)) means[c] = static_cast<T>(mean);
  if (T* variances = output<T>(b, 2)) variances[c] = static_cast<T>(variance);
  n.for_channel(c, [&](int64_t i) {
    output<T>(b, 0)[i] = static_cast<T>(n.normal(double_at<T>(b, 0, i), mean, variance,
                                                 double_at<T>(b, 1, c), double_at<T>(b, 2, c)));
  });
}

Kernel prepare_batch_norm(const Request& request) {
  const Normalization n(request);
  const RankChannels ranks(request, n.view.channels, 0);
  Kernel kernel;
  kernel.workspace = ranks.workspace();
  kernel.gathered = ranks.exchanged();
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n, ranks](const Buffers& b, const CallState&) {
      const auto own = [&](int64_t c) { return moments_of<T>(n, b, c); };
      ranks.exchange(b.workspace, own);
      for (int64_t c = 0; c < n.view.channels; ++c)
        normalize<T>(n, b, c, ranks.moments(b.workspace, c, own));
    };
  });
  return kernel;
}

Kernel prepare_batch_norm_predict(const Request& request) {
  return for_each_channel(
      request, []<typename T>(const Normalization& n, T, const Buffers& b, int64_t c) {
        n.for_channel(c, [&](int64_t i) {
          output<T>(b, 0)[i] = static_cast<T>(n.normal(double_at<T>(b, 0, i), double_at<T>(b, 3, c),
                                                       double_at<T>(b, 4, c), double_at<T>(b, 1, c),
                                                       double_at<T>(b, 2, c)));
        });
      });
}

Kernel prepare_batch_norm_grad_affine(const Request& request) {
  return for_each_channel(
      request, []<typename T>(const Normalization& n, T, const Buffers& b, int64_t c) {
        double dgamma = 0, dbeta = 0;
        n.for_channel(c, [&](int64_t i) {
          const double dy = n.gradient<T>(b, c, i);
          dbeta += dy;
          dgamma += dy * (double_at<T>(b, 1, i) - double_at<T>(b, 4, c));
        });
        output<T>(b, 0)[c] = static_cast<T>(dgamma * n.inverse(double_at<T>(b, 5, c)));
        output<T>(b, 1)[c] = static_cast<T>(dbeta);
      });
}

/// Computes dx of channel c. `sums` contains dgamma and dbeta, which are sums over `count`
/// elements.
template <typename T>
void differentiate(const Normalization& n, const Buffers& b, int64_t c, double count,
                   RankChannels::Pair sums) {
  const double inverse = n.inverse(double_at<T>(b, 5, c));
  n.for_channel(c, [&](int64_t i) {
    const double normal = (double_at<T>(b, 1, i) - double_at<T>(b, 4, c)) * inverse;
    output<T>(b, 0)[i] =
        static_cast<T>(double_at<T>(b, 2, c) * inverse *
                       (n.gradient<T>(b, c, i) - sums[1] / count - normal * sums[0] / count));
  });
}

Kernel prepare_batch_norm_grad(const Request& request) {
  const Normalization n(request);
  const RankChannels ranks(request, n.view.channels, 0);
  Kernel kernel;
  kernel.workspace = ranks.workspace();
  kernel.gathered = ranks.exchanged();
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n, ranks](const Buffers& b, const CallState&) {
      const auto own = [&](int64_t c) {
        return RankChannels::Pair{double_at<T>(b, 6, c), double_at<T>(b, 7, c)};
      };
      ranks.exchange(b.workspace, own);
      const auto count = static_cast<double>(n.view.count() * ranks.count());
      for (int64_t c = 0; c < n.view.channels; ++c)
        differentiate<T>(n, b, c, count, ranks.sums(b.workspace, c, own));
    };
  });
  return kernel;
}

Kernel prepare_move_statistics(const Request& request) {
  const double momentum = request.step.attributes.get<double>("momentum");
  const double unbias = request.step.attributes.get<double>("unbias");
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, n = request.inputs[0].shape.elements()](const Buffers& b,
                                                                const CallState&) {
      for (int64_t c = 0; c < n; ++c) {
        const double mean =
            momentum * double_at<T>(b, 2, c) + (1 - momentum) * double_at<T>(b, 0, c);
        const double variance =
            momentum * double_at<T>(b, 3, c) + (1 - momentum) * unbias * double_at<T>(b, 1, c);
        output<T>(b, 0)[c] = static_cast<T>(mean);
        output<T>(b, 1)[c] = static_cast<T>(variance);
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> batch_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"batch_norm", prepare_batch_norm},
      {"batch_norm_predict", prepare_batch_norm_predict},
      {"batch_norm_grad_affine", prepare_batch_norm_grad_affine},
      {"batch_norm_grad", prepare_batch_norm_grad},
      {"move_statistics", prepare_move_statistics},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
