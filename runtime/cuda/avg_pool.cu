// avg_pool2d, whose padding does not count, and its gradient.
#include "runtime/cuda/operands.h"
#include "runtime/cuda/threads.cuh"
#include "runtime/cuda/window.h"

namespace flow::cuda {
namespace {

__device__ inline int64_t count_of(const Range& rows, const Range& columns) {
  return (rows.end - rows.first) * (columns.end - columns.first);
}

/// x [planes, H, W] -> y [planes, OH, OW], n elements of it, a thread for each.
template <typename T>
__global__ void average(Window w, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t line = i / w.columns.output, column = i - line * w.columns.output;
    const int64_t plane = line / w.rows.output, row = line - plane * w.rows.output;
    const Range kh = w.rows.inside(row), kw = w.columns.inside(column);
    const T* window =
        x + (plane * w.rows.input + w.rows.start(row)) * w.columns.input + w.columns.start(column);
    T sum = 0;
    for (int64_t h = kh.first; h < kh.end; ++h)
      for (int64_t k = kw.first; k < kw.end; ++k) sum += window[h * w.columns.input + k];
    y[i] = sum / static_cast<T>(count_of(kh, kw));
  }
}

/// dx [planes, H, W], n elements, a thread for each: the sum of the shares of the windows over it.
template <typename T>
__global__ void share_out(Window w, const T* dy, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t line = i / w.columns.input, column = i - line * w.columns.input;
    const int64_t plane = line / w.rows.input, row = line - plane * w.rows.input;
    const Range rows = w.rows.covering(row), columns = w.columns.covering(column);
    T sum = 0;
    for (int64_t h = rows.first; h < rows.end; ++h)
      for (int64_t k = columns.first; k < columns.end; ++k)
        sum += dy[(plane * w.rows.output + h) * w.columns.output + k] /
               static_cast<T>(count_of(w.rows.inside(h), w.columns.inside(k)));
    dx[i] = sum;
  }
}

}  // namespace

Kernel avg_pool2d(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const Window window(request.step.attributes, x.shape, y.shape);
  return visit_float(x.dtype, [&]<typename T>(T) -> Kernel {
    return {[window, n = y.shape.elements()](const Buffers& b, const LaunchState& state) {
      launch(state.driver, state.stream, "avg_pool2d", shape_for(n), average<T>, window,
             input<T>(b, 0), output<T>(b, 0), n);
    }};
  });
}

Kernel avg_pool2d_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  const Window window(request.step.attributes, dx.shape, dy.shape);
  return visit_float(dy.dtype, [&]<typename T>(T) -> Kernel {
    return {[window, n = dx.shape.elements()](const Buffers& b, const LaunchState& state) {
      launch(state.driver, state.stream, "avg_pool2d_grad", shape_for(n), share_out<T>, window,
             input<T>(b, 0), output<T>(b, 0), n);
    }};
  });
}

}  // namespace flow::cuda
