// Reference kernels of softmax and log_softmax along an axis, and of their gradients.
#include <cmath>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// Calls run(a, b, out, n, stride) for each row along the axis. b is the second operand, or null if
/// there is none.
template <typename Run>
Kernel for_rows(const Request& request, Run run) {
  const Shape& x = request.inputs[0].shape;
  const int axis = axis_of(request);
  const int64_t n = x[axis], inner = x.elements(axis + 1, x.rank()), rows = x.elements() / n;
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = row / inner * n * inner + row % inner;
        const T* b = buffers.inputs.size() > 1 ? input<T>(buffers, 1) + at : nullptr;
        run(input<T>(buffers, 0) + at, b, output<T>(buffers, 0) + at, n, inner);
      }
    };
  });
  return kernel;
}

/// Returns logsumexp of a row.
template <typename T>
double log_sum_exp(const T* x, int64_t n, int64_t stride) {
  double max = static_cast<double>(x[0]), sum = 0;
  for (int64_t i = 1; i < n; ++i) max = std::max(max, static_cast<double>(x[i * stride]));
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i * stride]) - max);
  return max + std::log(sum);
}

Kernel prepare_softmax(const Request& request) {
  return for_rows(request, []<typename T>(const T* x, const T*, T* y, int64_t n, int64_t stride) {
    const double total = log_sum_exp(x, n, stride);
    for (int64_t i = 0; i < n; ++i)
      y[i * stride] = static_cast<T>(std::exp(static_cast<double>(x[i * stride]) - total));
  });
}

Kernel prepare_softmax_grad(const Request& request) {
  return for_rows(
      request, []<typename T>(const T* dy, const T* y, T* dx, int64_t n, int64_t stride) {
        double sum = 0;
        for (int64_t i = 0; i < n * stride; i += stride)
          sum += static_cast<double>(dy[i]) * static_cast<double>(y[i]);
        for (int64_t i = 0; i < n * stride; i += stride)
          dx[i] = static_cast<T>(static_cast<double>(y[i]) * (static_cast<double>(dy[i]) - sum));
      });
}

Kernel prepare_log_softmax(const Request& request) {
  return for_rows(request, []<typename T>(const T* x, const T*, T* y, int64_t n, int64_t stride) {
    const double total = log_sum_exp(x, n, stride);
    for (int64_t i = 0; i < n * stride; i += stride)
      y[i] = static_cast<T>(static_cast<double>(x[i]) - total);
  });
}

Kernel prepare_log_softmax_grad(const Request& request) {
  return for_rows(request, []<typename T>(const T* dy, const T* y, T* dx, int64_t n,
                                          int64_t stride) {
    double sum = 0;
    for (int64_t i = 0; i < n * stride; i += stride) sum += static_cast<double>(dy[i]);
    for (int64_t i = 0; i < n * stride; i += stride)
      dx[i] =
          static_cast<T>(static_cast<double>(dy[i]) - std::exp(static_cast<double>(y[i])) * sum);
  });
}

}  // namespace

std::span<const KernelEntry> softmax() {
  static constexpr KernelEntry kKernels[] = {
      {"softmax", prepare_softmax},
      {"softmax_grad", prepare_softmax_grad},
      {"log_softmax", prepare_log_softmax},
      {"log_softmax_grad", prepare_log_softmax_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
