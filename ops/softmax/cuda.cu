// Kernels of softmax and log_softmax along an axis, and of their gradients, with a warp or a block
// for each row.
#include "ops/core/along_axis.h"
#include "runtime/base/vector_math.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// y = softmax(x), or its logarithm.
template <typename T, int kTeam, bool kLog>
__global__ void softmax_rows(ops::AlongAxis shape, const T* x, T* y) {
  for_rows<kTeam>(shape.columns(), [&](int64_t row, int lane) {
    const int64_t at = shape.start(row);
    T max = -static_cast<T>(INFINITY);
    for (int64_t i = lane; i < shape.n; i += kTeam) max = Larger{}(max, x[at + i * shape.inner]);
    max = over_team<kTeam>(max, Larger{});
    T sum = 0;
    for (int64_t i = lane; i < shape.n; i += kTeam) sum += math::exp(x[at + i * shape.inner] - max);
    sum = over_team<kTeam>(sum, Sum{});
    const T last = kLog ? math::log(sum) : T{1} / sum;
    for (int64_t i = lane; i < shape.n; i += kTeam) {
      const T above = x[at + i * shape.inner] - max;
      y[at + i * shape.inner] = kLog ? above - last : math::exp(above) * last;
    }
  });
}

/// dx = y (dy - sum(dy y)), or dy - e^y sum(dy) for the logarithm.
template <typename T, int kTeam, bool kLog>
__global__ void softmax_grad_rows(ops::AlongAxis shape, const T* dy, const T* y, T* dx) {
  for_rows<kTeam>(shape.columns(), [&](int64_t row, int lane) {
    const int64_t at = shape.start(row);
    T sum = 0;
    for (int64_t i = lane; i < shape.n; i += kTeam) {
      const int64_t k = at + i * shape.inner;
      sum += kLog ? dy[k] : dy[k] * y[k];
    }
    sum = over_team<kTeam>(sum, Sum{});
    for (int64_t i = lane; i < shape.n; i += kTeam) {
      const int64_t k = at + i * shape.inner;
      dx[k] = kLog ? dy[k] - math::exp(y[k]) * sum : y[k] * (dy[k] - sum);
    }
  });
}

ops::AlongAxis rows_of(const Request& request) {
  return {request.inputs[0].shape, request.step.attributes};
}

template <bool kLog>
Kernel forward(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const ops::AlongAxis rows = rows_of(request);
    const auto kernel =
        is_long_row(rows.n) ? softmax_rows<T, kThreads, kLog> : softmax_rows<T, kWarp, kLog>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state, kLog ? "log_softmax" : "softmax", shape_for_rows(rows.columns(), rows.n),
             kernel, rows, input<T>(buffers, 0), output<T>(buffers, 0));
    }};
  });
}

template <bool kLog>
Kernel backward(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const ops::AlongAxis rows = rows_of(request);
    const auto kernel = is_long_row(rows.n) ? softmax_grad_rows<T, kThreads, kLog>
                                            : softmax_grad_rows<T, kWarp, kLog>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state, kLog ? "log_softmax_grad" : "softmax_grad",
             shape_for_rows(rows.columns(), rows.n), kernel, rows, input<T>(buffers, 0),
             input<T>(buffers, 1), output<T>(buffers, 0));
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::softmax() {
  static constexpr KernelEntry kKernels[] = {
      {"softmax", forward<false>, Order::kOwn},
      {"softmax_grad", backward<false>, Order::kOwn},
      {"log_softmax", forward<true>, Order::kOwn},
      {"log_softmax_grad", backward<true>, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
