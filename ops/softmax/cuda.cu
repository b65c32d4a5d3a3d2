// softmax and log_softmax along an axis, and their gradients: a warp or a block for each row.
#include "runtime/base/vector_math.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// Rows of n elements that lie `inner` apart: a tensor is [rows / inner, n, inner].
struct Rows {
  int64_t rows, n, inner;
};

/// Where a row begins.
__device__ int64_t first_of(const Rows& shape, int64_t row) {
  return row / shape.inner * shape.n * shape.inner + row % shape.inner;
}

/// y = softmax(x), or its logarithm.
template <typename T, int kTeam, bool kLog>
__global__ void softmax_rows(Rows shape, const T* x, T* y) {
  for_rows<kTeam>(shape.rows, [&](int64_t row, int lane) {
    const int64_t at = first_of(shape, row);
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
__global__ void softmax_grad_rows(Rows shape, const T* dy, const T* y, T* dx) {
  for_rows<kTeam>(shape.rows, [&](int64_t row, int lane) {
    const int64_t at = first_of(shape, row);
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

Rows rows_of(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  return {x.elements() / x[axis], x[axis], stride_of(x, axis)};
}

template <bool kLog>
Kernel forward(const char* name, const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const Rows rows = rows_of(request);
    const auto kernel =
        is_long_row(rows.n) ? softmax_rows<T, kThreads, kLog> : softmax_rows<T, kWarp, kLog>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, name, shape_for_rows(rows.rows, rows.n), kernel, rows,
             input<T>(buffers, 0), output<T>(buffers, 0));
    }};
  });
}

template <bool kLog>
Kernel backward(const char* name, const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const Rows rows = rows_of(request);
    const auto kernel = is_long_row(rows.n) ? softmax_grad_rows<T, kThreads, kLog>
                                            : softmax_grad_rows<T, kWarp, kLog>;
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, name, shape_for_rows(rows.rows, rows.n), kernel, rows,
             input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0));
    }};
  });
}

Kernel prepare_softmax(const Request& request) { return forward<false>("softmax", request); }

Kernel prepare_softmax_grad(const Request& request) {
  return backward<false>("softmax_grad", request);
}

Kernel prepare_log_softmax(const Request& request) { return forward<true>("log_softmax", request); }

Kernel prepare_log_softmax_grad(const Request& request) {
  return backward<true>("log_softmax_grad", request);
}

}  // namespace

std::span<const KernelEntry> kernels::softmax() {
  static constexpr KernelEntry kKernels[] = {
      {"softmax", prepare_softmax, Order::kOwn},
      {"softmax_grad", prepare_softmax_grad, Order::kOwn},
      {"log_softmax", prepare_log_softmax, Order::kOwn},
      {"log_softmax_grad", prepare_log_softmax_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
