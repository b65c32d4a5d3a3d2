// max_pool2d and its gradient. Forward keeps, for each result, the place kh*KW+kw in its window of
// the first maximum in row order (the first NaN, if there is one), so that the gradient needs no x.
#include <cmath>

#include "runtime/base/convert.h"
#include "runtime/cuda/operands.h"
#include "runtime/cuda/threads.cuh"
#include "runtime/cuda/window.h"

namespace flow::cuda {
namespace {

/// x [planes, H, W] -> y [planes, OH, OW], n elements of it, a thread for each. places may be null.
template <typename T, typename Place>
__global__ void pool(Window w, const T* x, T* y, Place* places, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t line = i / w.columns.output, column = i - line * w.columns.output;
    const int64_t plane = line / w.rows.output, row = line - plane * w.rows.output;
    const Range kh = w.rows.inside(row), kw = w.columns.inside(column);
    const T* window =
        x + (plane * w.rows.input + w.rows.start(row)) * w.columns.input + w.columns.start(column);
    const bool any = kh.first < kh.end && kw.first < kw.end;
    Wide<T> best = -static_cast<Wide<T>>(INFINITY);
    int64_t place = any ? kh.first * w.columns.size + kw.first : 0;
    for (int64_t h = kh.first; h < kh.end; ++h) {
      for (int64_t k = kw.first; k < kw.end; ++k) {
        const auto value = convert<Wide<T>>(window[h * w.columns.input + k]);
        if (value <= best || best != best) continue;
        best = value;
        place = h * w.columns.size + k;
      }
    }
    y[i] = convert<T>(best);
    if (places) places[i] = static_cast<Place>(place);
  }
}

/// dx [planes, H, W], n elements, a thread for each: the sum of dy over the windows that took the
/// element, in row order.
template <typename T, typename Place>
__global__ void spread(Window w, const T* dy, const Place* places, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t line = i / w.columns.input, column = i - line * w.columns.input;
    const int64_t plane = line / w.rows.input, row = line - plane * w.rows.input;
    const Range rows = w.rows.covering(row), columns = w.columns.covering(column);
    Wide<T> sum = 0;
    for (int64_t h = rows.first; h < rows.end; ++h) {
      for (int64_t k = columns.first; k < columns.end; ++k) {
        const int64_t from = (plane * w.rows.output + h) * w.columns.output + k;
        const int64_t place =
            (row - w.rows.start(h)) * w.columns.size + (column - w.columns.start(k));
        if (static_cast<int64_t>(places[from]) == place) sum += convert<Wide<T>>(dy[from]);
      }
    }
    dx[i] = convert<T>(sum);
  }
}

/// Places are of uint8 where windows are small, else int32.
template <typename F>
auto visit_place(DType dtype, F f) {
  return dtype == DType::kUInt8 ? f(uint8_t{}) : f(int32_t{});
}

template <typename T, typename Place>
Launch pool_launch(const Window& window, int64_t n) {
  return [=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "max_pool2d", shape_for(n), pool<T, Place>, window,
           input<T>(buffers, 0), output<T>(buffers, 0), output<Place>(buffers, 1), n);
  };
}

template <typename T, typename Place>
Launch spread_launch(const Window& window, int64_t n) {
  return [=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "max_pool2d_grad", shape_for(n), spread<T, Place>, window,
           input<T>(buffers, 0), input<Place>(buffers, 1), output<T>(buffers, 0), n);
  };
}

}  // namespace

Kernel max_pool2d(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const Window window(request.step.attributes, x.shape, y.shape);
  return visit_any_float(x.dtype, [&]<typename T>(T) {
    return visit_place(request.outputs[1].dtype, [&]<typename Place>(Place) -> Kernel {
      return {pool_launch<T, Place>(window, y.shape.elements())};
    });
  });
}

Kernel max_pool2d_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  const Window window(request.step.attributes, dx.shape, dy.shape);
  return visit_any_float(dy.dtype, [&]<typename T>(T) {
    return visit_place(request.inputs[1].dtype, [&]<typename Place>(Place) -> Kernel {
      return {spread_launch<T, Place>(window, dx.shape.elements())};
    });
  });
}

}  // namespace flow::cuda
