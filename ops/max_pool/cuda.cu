// max_pool2d and its gradient. Forward keeps, for each result, the place kh*KW+kw in its window of
// the first maximum in row order (the first NaN, if there is one), so that the gradient needs no x.
#include <cmath>

#include "runtime/base/convert.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/threads.cuh"
#include "runtime/cuda/loops/window.h"

namespace flow::cuda {
namespace {

/// x -> y, n elements of it, a thread for each. places may be null.
template <typename Index, typename T, typename Place>
__global__ void pool(Window<Index> w, const T* x, T* y, Place* places, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> window = w.window(static_cast<Index>(i));
    const Range<Index> rows = w.rows.inside(window.row), columns = w.columns.inside(window.column);
    const bool any = rows.first < rows.end && columns.first < columns.end;
    Wide<T> best = -static_cast<Wide<T>>(INFINITY);
    Index place = any ? w.place(window, rows.first, columns.first) : 0;
    for (Index row = rows.first; row < rows.end; ++row) {
      for (Index column = columns.first; column < columns.end; ++column) {
        const auto value = convert<Wide<T>>(x[w.input_at(window, row, column)]);
        if (value <= best || best != best) continue;
        best = value;
        place = w.place(window, row, column);
      }
    }
    y[i] = convert<T>(best);
    if (places) places[i] = static_cast<Place>(place);
  }
}

/// dx, n elements, a thread for each: the sum of dy over the windows that took the element, in row
/// order.
template <typename Index, typename T, typename Place>
__global__ void spread(Window<Index> w, const T* dy, const Place* places, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> at = w.element(static_cast<Index>(i));
    const Range<Index> rows = w.rows.covering(at.row), columns = w.columns.covering(at.column);
    Wide<T> sum = 0;
    for (Index row = rows.first; row < rows.end; ++row) {
      for (Index column = columns.first; column < columns.end; ++column) {
        const Index from = w.output_at(at, row, column);
        const Index place = w.place({at.plane, row, column, at.channel}, at.row, at.column);
        if (static_cast<Index>(places[from]) == place) sum += convert<Wide<T>>(dy[from]);
      }
    }
    dx[i] = convert<T>(sum);
  }
}

/// The same where windows lie apart: a thread for each of n windows writes dx up to the next ones.
template <typename Index, typename T, typename Place>
__global__ void spread_apart(Window<Index> w, const T* dy, const Place* places, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> window = w.window(static_cast<Index>(i));
    const Range<Index> rows = w.rows.cell(window.row), columns = w.columns.cell(window.column);
    const Division<Index> place = w.columns.by_size.divide(static_cast<Index>(places[i]));
    const Index row_taken = w.rows.start(window.row) + place.quotient;
    const Index column_taken = w.columns.start(window.column) + place.remainder;
    const T sum = convert<T>(Wide<T>{0} + convert<Wide<T>>(dy[i]));  // -0 becomes 0, as in sums
    for (Index row = rows.first; row < rows.end; ++row)
      for (Index column = columns.first; column < columns.end; ++column)
        dx[w.input_at(window, row, column)] =
            row == row_taken && column == column_taken ? sum : T{};
  }
}

/// Places are of uint8 where windows are small, else int32.
template <typename F>
auto visit_place(DType dtype, F f) {
  return dtype == DType::kUInt8 ? f(uint8_t{}) : f(int32_t{});
}

template <typename T, typename Place, typename Index>
Launch pool_launch(const Window<Index>& window, int64_t n) {
  return [=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "max_pool2d", shape_for(n), pool<Index, T, Place>, window,
           input<T>(buffers, 0), output<T>(buffers, 0), output<Place>(buffers, 1), n);
  };
}

template <typename T, typename Place, typename Index>
Launch spread_launch(const Window<Index>& window, int64_t elements, int64_t windows) {
  const auto kernel = window.apart() ? spread_apart<Index, T, Place> : spread<Index, T, Place>;
  return [=, n = window.apart() ? windows : elements](const Buffers& buffers,
                                                      const LaunchState& state) {
    launch(state.driver, state.stream, "max_pool2d_grad", shape_for(n), kernel, window,
           input<T>(buffers, 0), input<Place>(buffers, 1), output<T>(buffers, 0), n);
  };
}

/// A kernel over the windows of x that make y, whose launch is make(window, T{}, Place{}).
template <typename Make>
Kernel for_windows(const Request& request, const TensorDesc& x, const TensorDesc& y, DType places,
                   Make make) {
  return visit_window(request.step.attributes, x.shape, y.shape, has_channels_last(request.step),
                      [&](const auto& window) {
                        return visit_any_float(x.dtype, [&](auto t) {
                          return visit_place(places, [&](auto place) -> Kernel {
                            return {make(window, t, place)};
                          });
                        });
                      });
}

Kernel prepare_max_pool2d(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  return for_windows(request, x, y, request.outputs[1].dtype,
                     [&]<typename T, typename Place>(const auto& window, T, Place) {
                       return pool_launch<T, Place>(window, y.shape.elements());
                     });
}

Kernel prepare_max_pool2d_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  return for_windows(request, dx, dy, request.inputs[1].dtype,
                     [&]<typename T, typename Place>(const auto& window, T, Place) {
                       return spread_launch<T, Place>(window, dx.shape.elements(),
                                                      dy.shape.elements());
                     });
}

}  // namespace

std::span<const KernelEntry> kernels::max_pool() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "max_pool2d", .prepare = prepare_max_pool2d, .channels_last = ChannelsLast::kFlag},
      {.op = "max_pool2d_grad",
       .prepare = prepare_max_pool2d_grad,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kFlag},
  };
  return kKernels;
}

}  // namespace flow::cuda
