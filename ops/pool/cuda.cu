// Kernels of max_pool2d and avg_pool2d, which ignore their padding, and of their gradients. The
// forward pass of max_pool2d stores for each result the place kh*KW+kw of the maximum in its
// window, so the gradient does not need x. If several elements are largest, it stores the first one
// in row order; if the window contains a NaN, it stores the first NaN.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/core/cuda_launch.cuh"
#include "ops/pool/problem.h"
#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

// Index is int32_t if all numbers and places fit, which is nearly always the case, and int64_t
// otherwise.

/// One axis of the windows. Window i covers elements [start(i), start(i) + size) of the input;
/// elements outside the input are padding.
template <typename Index>
struct DividedAxis {
  Index input, output, size, stride, before;
  Divider by_input{input}, by_output{output}, by_size{size}, by_stride{stride};

  explicit DividedAxis(const WindowAxis<int64_t>& of)
      : input(static_cast<Index>(of.input)),
        output(static_cast<Index>(of.output)),
        size(static_cast<Index>(of.size)),
        stride(static_cast<Index>(of.stride)),
        before(static_cast<Index>(of.before)) {}

  FLOW_HOST_DEVICE Index start(Index i) const { return i * stride - before; }
  /// Returns the part of window i that lies in the input.
  FLOW_HOST_DEVICE WindowRange<Index> inside(Index i) const { return clipped(start(i), size); }
  /// Returns the part of the input from the start of window i to the start of the next window, or
  /// to the end of the input after the last window. The part of the first window begins at the
  /// start of the input.
  FLOW_HOST_DEVICE WindowRange<Index> cell(Index i) const {
    return clipped(start(i), i + 1 < output ? stride : input - start(i));
  }
  /// Returns the windows that cover an element of the input.
  FLOW_HOST_DEVICE WindowRange<Index> covering(Index element) const {
    const Index padded = element + before;
    const Index first = padded < size ? 0 : by_stride.divide(padded - size).quotient + 1;
    const Index end = by_stride.divide(padded).quotient + 1;
    return {first, end < output ? end : output};
  }

 private:
  FLOW_HOST_DEVICE WindowRange<Index> clipped(Index first, Index count) const {
    return {first < 0 ? 0 : first, first + count < input ? first + count : input};
  }
};

/// An element of images [planes, rows, columns, channels], or a window over them. If the channels
/// are not stored last, each channel is a plane and `channels` is 1.
template <typename Index>
struct Pixel {
  Index plane, row, column, channel;
};

/// The windows of a pool or its gradient.
template <typename Index>
struct Window {
  DividedAxis<Index> rows, columns;
  Index channels = 1;
  Divider by_channels{channels};

  /// Returns true if no element lies in two windows.
  bool apart() const { return rows.stride >= rows.size && columns.stride >= columns.size; }

  /// Returns element i of the input.
  FLOW_HOST_DEVICE Pixel<Index> element(Index i) const {
    return pixel(i, rows.by_input, columns.by_input);
  }
  /// Returns window i, which produces element i of the output.
  FLOW_HOST_DEVICE Pixel<Index> window(Index i) const {
    return pixel(i, rows.by_output, columns.by_output);
  }
  /// input_at() returns the offset of an element of the input, and output_at() that of the result
  /// of a window.
  FLOW_HOST_DEVICE Index input_at(const Pixel<Index>& at, Index row, Index column) const {
    return ((at.plane * rows.input + row) * columns.input + column) * channels + at.channel;
  }
  FLOW_HOST_DEVICE Index output_at(const Pixel<Index>& at, Index row, Index column) const {
    return ((at.plane * rows.output + row) * columns.output + column) * channels + at.channel;
  }
  /// Returns the number kh * KW + kw of an element in a window that covers it.
  FLOW_HOST_DEVICE Index place(const Pixel<Index>& window, Index row, Index column) const {
    return (row - rows.start(window.row)) * columns.size + column - columns.start(window.column);
  }

 private:
  FLOW_HOST_DEVICE Pixel<Index> pixel(Index i, const Divider& by_rows,
                                      const Divider& by_columns) const {
    const Division<Index> own = by_channels.divide(i), line = by_columns.divide(own.quotient),
                          plane = by_rows.divide(line.quotient);
    return {plane.quotient, plane.remainder, line.remainder, own.remainder};
  }
};

/// Returns the kernel make(window), where `window` is the Window of a pool that computes y from x.
template <typename Make>
Kernel for_windows(const Request& request, const TensorDesc& x, const TensorDesc& y, Make make) {
  const bool last = has_channels_last(request.step);
  const PoolWindows of(request.step.attributes, x.shape, y.shape, last);
  const auto window = [&]<typename Index>(Index) {
    return Window<Index>{DividedAxis<Index>(of.rows), DividedAxis<Index>(of.columns),
                         static_cast<Index>(last ? x.shape[3] : 1)};
  };
  const std::vector<int64_t>& padding = attribute<std::vector<int64_t>>(request, "padding");
  const int64_t largest =
      std::max({x.shape.elements(), y.shape.elements(), of.rows.size, of.columns.size,
                of.rows.stride, of.columns.stride, *std::ranges::max_element(padding)});
  // Sums of up to four of these numbers still fit int32_t.
  return largest < kNarrow / 4 ? make(window(int32_t{})) : make(window(int64_t{}));
}

/// Computes n elements of y from x with a thread for each element. `places` may be null.
template <typename Index, typename T, typename Place>
__global__ void pool(Window<Index> w, const T* x, T* y, Place* places, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> window = w.window(static_cast<Index>(i));
    const WindowRange<Index> rows = w.rows.inside(window.row),
                             columns = w.columns.inside(window.column);
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

/// Computes n elements of dx with a thread for each element: the sum, in row order, of dy over the
/// windows whose maximum is the element.
template <typename Index, typename T, typename Place>
__global__ void spread(Window<Index> w, const T* dy, const Place* places, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> at = w.element(static_cast<Index>(i));
    const WindowRange<Index> rows = w.rows.covering(at.row),
                             columns = w.columns.covering(at.column);
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

/// Does the same for windows that do not overlap: a thread for each of n windows writes dx up to
/// the start of the next windows.
template <typename Index, typename T, typename Place>
__global__ void spread_apart(Window<Index> w, const T* dy, const Place* places, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> window = w.window(static_cast<Index>(i));
    const WindowRange<Index> rows = w.rows.cell(window.row),
                             columns = w.columns.cell(window.column);
    const Division<Index> place = w.columns.by_size.divide(static_cast<Index>(places[i]));
    const Index row_taken = w.rows.start(window.row) + place.quotient;
    const Index column_taken = w.columns.start(window.column) + place.remainder;
    const T sum = convert<T>(Wide<T>{0} + convert<Wide<T>>(dy[i]));  // turns -0 into 0, as sums do
    for (Index row = rows.first; row < rows.end; ++row)
      for (Index column = columns.first; column < columns.end; ++column)
        dx[w.input_at(window, row, column)] =
            row == row_taken && column == column_taken ? sum : T{};
  }
}

template <typename T, typename Index>
__device__ T count_of(const WindowRange<Index>& rows, const WindowRange<Index>& columns) {
  return static_cast<T>((rows.end - rows.first) * (columns.end - columns.first));
}

/// Computes n elements of y from x with a thread for each element.
template <typename Index, typename T>
__global__ void average(Window<Index> w, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> window = w.window(static_cast<Index>(i));
    const WindowRange<Index> rows = w.rows.inside(window.row),
                             columns = w.columns.inside(window.column);
    Wide<T> sum = 0;
    for (Index row = rows.first; row < rows.end; ++row)
      for (Index column = columns.first; column < columns.end; ++column)
        sum += convert<Wide<T>>(x[w.input_at(window, row, column)]);
    y[i] = convert<T>(sum / count_of<Wide<T>>(rows, columns));
  }
}

/// Computes n elements of dx with a thread for each element: the sum of the shares of the windows
/// that cover the element.
template <typename Index, typename T>
__global__ void share_out(Window<Index> w, const T* dy, T* dx, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Pixel<Index> at = w.element(static_cast<Index>(i));
    const WindowRange<Index> rows = w.rows.covering(at.row),
                             columns = w.columns.covering(at.column);
    Wide<T> sum = 0;
    for (Index row = rows.first; row < rows.end; ++row)
      for (Index column = columns.first; column < columns.end; ++column)
        sum += convert<Wide<T>>(dy[w.output_at(at, row, column)]) /
               count_of<Wide<T>>(w.rows.inside(row), w.columns.inside(column));
    dx[i] = convert<T>(sum);
  }
}

/// Returns make(T{}, Place{}). Places are uint8 if windows are small, and int32 otherwise.
template <typename Make>
Kernel visit_pooled(DType dtype, DType places, Make make) {
  return visit_any_float(dtype, [&](auto t) -> Kernel {
    return {places == DType::kUInt8 ? make(t, uint8_t{}) : make(t, int32_t{})};
  });
}

Kernel prepare_max_pool2d(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  return for_windows(request, x, y, [&]<typename Index>(const Window<Index>& window) {
    return visit_pooled(
        x.dtype, request.outputs[1].dtype, [&]<typename T, typename Place>(T, Place) -> Launch {
          return [window, n = y.shape.elements()](const Buffers& b, const LaunchState& state) {
            launch(state, "max_pool2d", shape_for(n), pool<Index, T, Place>, window, input<T>(b, 0),
                   output<T>(b, 0), output<Place>(b, 1), n);
          };
        });
  });
}

Kernel prepare_max_pool2d_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  return for_windows(request, dx, dy, [&]<typename Index>(const Window<Index>& window) {
    return visit_pooled(
        dx.dtype, request.inputs[1].dtype, [&]<typename T, typename Place>(T, Place) -> Launch {
          const auto kernel =
              window.apart() ? spread_apart<Index, T, Place> : spread<Index, T, Place>;
          const int64_t n = window.apart() ? dy.shape.elements() : dx.shape.elements();
          return [=](const Buffers& b, const LaunchState& state) {
            launch(state, "max_pool2d_grad", shape_for(n), kernel, window, input<T>(b, 0),
                   input<Place>(b, 1), output<T>(b, 0), n);
          };
        });
  });
}

/// Returns a kernel that launches kernel_of(Index{}, T{}) for the windows of a pool that computes y
/// from x.
template <typename KernelOf>
Kernel average_kernel(const Request& request, const char* name, const TensorDesc& x,
                      const TensorDesc& y, KernelOf kernel_of) {
  return for_windows(request, x, y, [&]<typename Index>(const Window<Index>& window) {
    return visit_any_float(x.dtype, [&]<typename T>(T) -> Kernel {
      return {[name, window, kernel = kernel_of(Index{}, T{}), n = result_elements(request)](
                  const Buffers& b, const LaunchState& state) {
        launch(state, name, shape_for(n), kernel, window, input<T>(b, 0), output<T>(b, 0), n);
      }};
    });
  });
}

Kernel prepare_avg_pool2d(const Request& request) {
  return average_kernel(request, "avg_pool2d", request.inputs[0], request.outputs[0],
                        []<typename Index, typename T>(Index, T) { return average<Index, T>; });
}

Kernel prepare_avg_pool2d_grad(const Request& request) {
  return average_kernel(request, "avg_pool2d_grad", request.outputs[0], request.inputs[0],
                        []<typename Index, typename T>(Index, T) { return share_out<Index, T>; });
}

}  // namespace

std::span<const KernelEntry> kernels::pool() {
  static constexpr auto of = [](std::string_view op, Prepare prepare, Order order) {
    return KernelEntry{
        .op = op, .prepare = prepare, .order = order, .channels_last = ChannelsLast::kFlag};
  };
  static constexpr KernelEntry kKernels[] = {
      of("max_pool2d", prepare_max_pool2d, Order::kCpu),
      of("max_pool2d_grad", prepare_max_pool2d_grad, Order::kOwn),
      of("avg_pool2d", prepare_avg_pool2d, Order::kOwn),
      of("avg_pool2d_grad", prepare_avg_pool2d_grad, Order::kOwn),
  };
  return kKernels;
}

}  // namespace flow::cuda
