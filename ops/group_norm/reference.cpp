// Reference kernels of group normalization of [images, channels, inner] and its gradient.
#include <cmath>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

struct Groups {
  explicit Groups(const Request& request)
      : groups(request.step.attributes.get<int64_t>("groups")),
        epsilon(number(request, "epsilon")) {
    const Shape& x = request.inputs[0].shape;
    images = x[0];
    channels = x[1];
    inner = x.elements(2, x.rank());
  }
  int64_t rows() const { return images * groups; }
  int64_t elements() const { return channels / groups * inner; }  // per group
  /// Returns the channel of element i of the whole array.
  int64_t channel(int64_t i) const { return i / inner % channels; }
  double inverse(double variance) const { return 1 / std::sqrt(variance + epsilon); }

  int64_t images = 1, channels = 1, inner = 1, groups;
  double epsilon;
};

template <typename T>
void normalize_group(const Groups& g, const Buffers& b, int64_t row) {
  const int64_t first = row * g.elements(), end = first + g.elements();
  const auto n = static_cast<double>(g.elements());
  double mean = 0, variance = 0;
  for (int64_t i = first; i < end; ++i) mean += double_at<T>(b, 0, i) / n;
  for (int64_t i = first; i < end; ++i)
    variance += (double_at<T>(b, 0, i) - mean) * (double_at<T>(b, 0, i) - mean) / n;
  for (int64_t i = first; i < end; ++i)
    output<T>(b, 0)[i] = static_cast<T>((double_at<T>(b, 0, i) - mean) * g.inverse(variance) *
                                            double_at<T>(b, 1, g.channel(i)) +
                                        double_at<T>(b, 2, g.channel(i)));
  if (output<T>(b, 1)) output<T>(b, 1)[row] = static_cast<T>(mean);
  if (output<T>(b, 2)) output<T>(b, 2)[row] = static_cast<T>(variance);
}

/// Computes dx of one group. `normal(i)` returns the normalized element i of x.
template <typename T, typename Normal>
void differentiate_group(const Groups& g, const Buffers& b, int64_t row, Normal normal) {
  const int64_t first = row * g.elements(), end = first + g.elements();
  const auto n = static_cast<double>(g.elements());
  const auto scaled = [&](int64_t i) {
    return double_at<T>(b, 0, i) * double_at<T>(b, 2, g.channel(i));
  };
  double mean = 0, product = 0;
  for (int64_t i = first; i < end; ++i) {
    mean += scaled(i) / n;
    product += scaled(i) * normal(i) / n;
  }
  for (int64_t i = first; i < end; ++i)
    output<T>(b, 0)[i] = static_cast<T>(g.inverse(double_at<T>(b, 4, row)) *
                                        (scaled(i) - mean - normal(i) * product));
}

Kernel prepare_group_normalize(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [g = Groups(request)](const Buffers& b, const CallState&) {
      for (int64_t row = 0; row < g.rows(); ++row) normalize_group<T>(g, b, row);
    };
  });
  return kernel;
}

Kernel prepare_group_normalize_grad(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [g = Groups(request)](const Buffers& b, const CallState&) {
      const auto normal = [&](int64_t i) {
        const int64_t row = i / g.elements();
        return (double_at<T>(b, 1, i) - double_at<T>(b, 3, row)) *
               g.inverse(double_at<T>(b, 4, row));
      };
      for (int64_t row = 0; row < g.rows(); ++row) differentiate_group<T>(g, b, row, normal);
      for (int64_t c = 0; c < g.channels; ++c) {
        double dgamma = 0, dbeta = 0;
        for (int64_t image = 0; image < g.images; ++image) {
          const int64_t first = (image * g.channels + c) * g.inner;
          for (int64_t i = first; i < first + g.inner; ++i) {
            dgamma += double_at<T>(b, 0, i) * normal(i);
            dbeta += double_at<T>(b, 0, i);
          }
        }
        if (output<T>(b, 1)) output<T>(b, 1)[c] = static_cast<T>(dgamma);
        if (output<T>(b, 2)) output<T>(b, 2)[c] = static_cast<T>(dbeta);
      }
    };
  });
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

}  // namespace flow::cpu::reference
