// Reference kernels of layer normalization and root mean square normalization of (rows, features),
// and of their gradients.
#include <cmath>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

struct Rows {
  explicit Rows(const Request& request) : epsilon(request.step.attributes.get<double>("epsilon")) {
    const Shape& x = request.inputs[0].shape;
    const int axis = axis_of(request);
    rows = x.elements(0, axis);
    features = x.elements(axis, x.rank());
  }
  double inverse(double variance) const { return 1 / std::sqrt(variance + epsilon); }

  int64_t rows, features;
  double epsilon;
};

template <typename T>
void normalize_row(const Rows& r, const Buffers& b, int64_t row) {
  const int64_t first = row * r.features;
  const auto n = static_cast<double>(r.features);
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < r.features; ++i) mean += double_at<T>(b, 0, first + i) / n;
  for (int64_t i = 0; i < r.features; ++i)
    variance += (double_at<T>(b, 0, first + i) - mean) * (double_at<T>(b, 0, first + i) - mean) / n;
  for (int64_t i = 0; i < r.features; ++i)
    output<T>(b, 0)[first + i] = static_cast<T>((double_at<T>(b, 0, first + i) - mean) *
                                                    r.inverse(variance) * double_at<T>(b, 1, i) +
                                                double_at<T>(b, 2, i));
  if (output<T>(b, 1)) output<T>(b, 1)[row] = static_cast<T>(mean);
  if (output<T>(b, 2)) output<T>(b, 2)[row] = static_cast<T>(variance);
}

/// Computes dx of one row; `normal(row, i)` is element i of the row of x, normalized.
template <typename T, typename Normal>
void differentiate_row(const Rows& r, const Buffers& b, int64_t row, Normal normal) {
  const int64_t first = row * r.features;
  const auto n = static_cast<double>(r.features);
  const auto scaled = [&](int64_t i) {
    return double_at<T>(b, 0, first + i) * double_at<T>(b, 2, i);
  };
  double mean = 0, product = 0;
  for (int64_t i = 0; i < r.features; ++i) {
    mean += scaled(i) / n;
    product += scaled(i) * normal(row, i) / n;
  }
  for (int64_t i = 0; i < r.features; ++i)
    output<T>(b, 0)[first + i] = static_cast<T>(r.inverse(double_at<T>(b, 4, row)) *
                                                (scaled(i) - mean - normal(row, i) * product));
}

Kernel prepare_layer_normalize(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [r = Rows(request)](const Buffers& b, const CallState&) {
      for (int64_t row = 0; row < r.rows; ++row) normalize_row<T>(r, b, row);
    };
  });
  return kernel;
}

Kernel prepare_layer_normalize_grad(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [r = Rows(request)](const Buffers& b, const CallState&) {
      const auto normal = [&](int64_t row, int64_t i) {
        return (double_at<T>(b, 1, row * r.features + i) - double_at<T>(b, 3, row)) *
               r.inverse(double_at<T>(b, 4, row));
      };
      for (int64_t row = 0; row < r.rows; ++row) differentiate_row<T>(r, b, row, normal);
      for (int64_t i = 0; i < r.features; ++i) {
        double dgamma = 0, dbeta = 0;
        for (int64_t row = 0; row < r.rows; ++row) {
          dgamma += double_at<T>(b, 0, row * r.features + i) * normal(row, i);
          dbeta += double_at<T>(b, 0, row * r.features + i);
        }
        if (output<T>(b, 1)) output<T>(b, 1)[i] = static_cast<T>(dgamma);
        if (output<T>(b, 2)) output<T>(b, 2)[i] = static_cast<T>(dbeta);
      }
    };
  });
  return kernel;
}

struct RmsRows {
  explicit RmsRows(const Request& request) {
    const Shape& x = request.inputs[0].shape;
    const int axis = axis_of(request);
    rows = x.elements(0, axis);
    features = x.elements(axis, x.rank());
  }

  int64_t rows, features;
};

template <typename T>
void rms_normalize_row(const RmsRows& r, double epsilon, const Buffers& b, int64_t row) {
  const int64_t first = row * r.features;
  double mean = 0;
  for (int64_t i = 0; i < r.features; ++i)
    mean += double_at<T>(b, 0, first + i) * double_at<T>(b, 0, first + i) /
            static_cast<double>(r.features);
  const double inverse = 1 / std::sqrt(mean + epsilon);
  for (int64_t i = 0; i < r.features; ++i)
    output<T>(b, 0)[first + i] =
        static_cast<T>(double_at<T>(b, 0, first + i) * inverse * double_at<T>(b, 1, i));
  if (output<T>(b, 1)) output<T>(b, 1)[row] = static_cast<T>(inverse);
}

/// Computes dx of one row; `normal(row, i)` is element i of the row of x, normalized.
template <typename T, typename Normal>
void rms_differentiate_row(const RmsRows& r, const Buffers& b, int64_t row, Normal normal) {
  const int64_t first = row * r.features;
  const auto scaled = [&](int64_t i) {
    return double_at<T>(b, 0, first + i) * double_at<T>(b, 2, i);
  };
  double product = 0;
  for (int64_t i = 0; i < r.features; ++i)
    product += scaled(i) * normal(row, i) / static_cast<double>(r.features);
  for (int64_t i = 0; i < r.features; ++i)
    output<T>(b, 0)[first + i] =
        static_cast<T>(double_at<T>(b, 3, row) * (scaled(i) - normal(row, i) * product));
}

Kernel prepare_rms_normalize(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [r = RmsRows(request), epsilon = number(request, "epsilon")](const Buffers& b,
                                                                                 const CallState&) {
      for (int64_t row = 0; row < r.rows; ++row) rms_normalize_row<T>(r, epsilon, b, row);
    };
  });
  return kernel;
}

Kernel prepare_rms_normalize_grad(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [r = RmsRows(request)](const Buffers& b, const CallState&) {
      const auto normal = [&](int64_t row, int64_t i) {
        return double_at<T>(b, 1, row * r.features + i) * double_at<T>(b, 3, row);
      };
      for (int64_t row = 0; row < r.rows; ++row) rms_differentiate_row<T>(r, b, row, normal);
      for (int64_t i = 0; i < r.features && output<T>(b, 1); ++i) {
        double dgamma = 0;
        for (int64_t row = 0; row < r.rows; ++row)
          dgamma += double_at<T>(b, 0, row * r.features + i) * normal(row, i);
        output<T>(b, 1)[i] = static_cast<T>(dgamma);
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> feature_norm() {
  static constexpr KernelEntry kKernels[] = {
      {"layer_normalize", prepare_layer_normalize},
      {"layer_normalize_grad", prepare_layer_normalize_grad},
      {"rms_normalize", prepare_rms_normalize},
      {"rms_normalize_grad", prepare_rms_normalize_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
