// avg_pool2d, whose padding does not count, and its gradient.
#include "runtime/base/convert.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/threads.cuh"
#include "runtime/cuda/loops/window.h"

namespace flow::cuda {
namespace {

template <typename T, typename Index>
__device__ T count_of(const Range<Index>& rows, const Range<Index>& columns) {
  return static_cast<T>((rows.end - rows.first) * (columns.end - columns.first));
}

/// x -> y, n elements of it, a thread for each.
template <typename Index, typename T>
__global__ void average(Window<Index> w, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> window = w.window(static_cast<Index>(i));
    const Range<Index> rows = w.rows.inside(window.row), columns = w.columns.inside(window.column);
    Wide<T> sum = 0;
    for (Index row = rows.first; row < rows.end; ++row)
      for (Index column = columns.first; column < columns.end; ++column)
        sum += convert<Wide<T>>(x[w.input_at(window, row, column)]);
    y[i] = convert<T>(sum / count_of<Wide<T>>(rows, columns));
  }
}

/// dx, n elements, a thread for each: the sum of the shares of the windows over it.
template <typename Index, typename T>
__global__ void share_out(Window<Index> w, const T* dy, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> at = w.element(static_cast<Index>(i));
    const Range<Index> rows = w.rows.covering(at.row), columns = w.columns.covering(at.column);
    Wide<T> sum = 0;
    for (Index row = rows.first; row < rows.end; ++row)
      for (Index column = columns.first; column < columns.end; ++column)
        sum += convert<Wide<T>>(dy[w.output_at(at, row, column)]) /
               count_of<Wide<T>>(w.rows.inside(row), w.columns.inside(column));
    dx[i] = convert<T>(sum);
  }
}

Kernel prepare_avg_pool2d(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  return visit_window(
      request.step.attributes, x.shape, y.shape, has_channels_last(request.step),
      [&]<typename Index>(const Window<Index>& window) {
        return visit_any_float(x.dtype, [&]<typename T>(T) -> Kernel {
          return {[window, n = y.shape.elements()](const Buffers& b, const LaunchState& state) {
            launch(state.driver, state.stream, "avg_pool2d", shape_for(n), average<Index, T>,
                   window, input<T>(b, 0), output<T>(b, 0), n);
          }};
        });
      });
}

Kernel prepare_avg_pool2d_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  return visit_window(
      request.step.attributes, dx.shape, dy.shape, has_channels_last(request.step),
      [&]<typename Index>(const Window<Index>& window) {
        return visit_any_float(dy.dtype, [&]<typename T>(T) -> Kernel {
          return {[window, n = dx.shape.elements()](const Buffers& b, const LaunchState& state) {
            launch(state.driver, state.stream, "avg_pool2d_grad", shape_for(n), share_out<Index, T>,
                   window, input<T>(b, 0), output<T>(b, 0), n);
          }};
        });
      });
}

}  // namespace

std::span<const KernelEntry> kernels::avg_pool() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "avg_pool2d",
       .prepare = prepare_avg_pool2d,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kFlag},
      {.op = "avg_pool2d_grad",
       .prepare = prepare_avg_pool2d_grad,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kFlag},
  };
  return kKernels;
}

}  // namespace flow::cuda
