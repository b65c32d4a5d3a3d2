// Kernels of resize and of its gradient: a thread for each pixel of the result sums the pixels that
// contribute to it, in the order of tables that are copied to device memory in advance.
#include <algorithm>
#include <memory>
#include <vector>

#include "ops/core/cuda_launch.cuh"
#include "ops/resize/taps.h"
#include "runtime/base/element_types.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/loops.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// ops::Taps in device memory, with weights of the type of sums.
template <typename Sum>
struct AxisTaps {
  const int32_t* indices;
  const Sum* weights;
  int32_t count, width;
};

/// Images [planes, rows, columns, channels]. If the channels are not stored last, each channel is a
/// plane and `channels` is 1.
template <typename Index, typename Sum>
struct Resizing {
  AxisTaps<Sum> rows, columns;
  Index x_rows, x_columns, channels;  // x_rows and x_columns are extents of the operand
  Divider by_rows, by_columns, by_channels;
};

/// Computes n elements of y from x.
template <typename Index, typename T>
__global__ void mix_pixels(Resizing<Index, Wide<T>> r, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Division<Index> own = r.by_channels.divide(static_cast<Index>(i)),
                          line = r.by_columns.divide(own.quotient),
                          plane = r.by_rows.divide(line.quotient);
    Wide<T> sum = 0;
    for (int32_t k = plane.remainder; k < r.rows.width * r.rows.count; k += r.rows.count) {
      const Wide<T> down = r.rows.weights[k];
      if (down == 0) break;
      const Index row = plane.quotient * r.x_rows + r.rows.indices[k];
      Wide<T> across = 0;
      for (int32_t l = line.remainder; l < r.columns.width * r.columns.count;
           l += r.columns.count) {
        const Wide<T> weight = r.columns.weights[l];
        if (weight == 0) break;
        const Index at = (row * r.x_columns + r.columns.indices[l]) * r.channels + own.remainder;
        across = multiply_add(weight, convert<Wide<T>>(x[at]), across);
      }
      sum = multiply_add(down, across, sum);
    }
    y[i] = convert<T>(sum);
  }
}

/// The tables of both axes in one block of device memory.
template <typename Sum>
class DeviceTables {
 public:
  DeviceTables(Driver& driver, const ops::Taps& rows, const ops::Taps& columns)
      : weights_(rows.weights.begin(), rows.weights.end()), indices_(rows.indices) {
    weights_.insert(weights_.end(), columns.weights.begin(), columns.weights.end());
    indices_.insert(indices_.end(), columns.indices.begin(), columns.indices.end());
    const size_t weight_bytes = weights_.size() * sizeof(Sum);
    const size_t index_bytes = indices_.size() * sizeof(int32_t);
    memory_ = DeviceBytes(driver, driver.allocate(weight_bytes + index_bytes));
    const OwnedStream stream(driver, driver.create_stream());
    driver.copy(memory_.get(), weights_.data(), weight_bytes, stream.get());
    driver.copy(memory_.get() + weight_bytes, indices_.data(), index_bytes, stream.get());
    driver.synchronize(stream.get());
    rows_ = taps(rows, 0);
    columns_ = taps(columns, rows.weights.size());
    weights_ = {};
    indices_ = {};
  }

  const AxisTaps<Sum>& rows() const { return rows_; }
  const AxisTaps<Sum>& columns() const { return columns_; }

 private:
  AxisTaps<Sum> taps(const ops::Taps& axis, size_t first) const {
    const auto* weights = reinterpret_cast<const Sum*>(memory_.get());
    const auto* indices = reinterpret_cast<const int32_t*>(weights + weights_.size());
    return {indices + first, weights + first, static_cast<int32_t>(axis.count),
            static_cast<int32_t>(axis.width)};
  }

  std::vector<Sum> weights_;
  std::vector<int32_t> indices_;
  DeviceBytes memory_;
  AxisTaps<Sum> rows_, columns_;
};

/// `taps` contains the pixels of the operand that contribute to each pixel of the result.
Kernel resize_kernel(const Request& request, const char* name, const ops::ImageTaps& taps) {
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  const bool last = has_channels_last(request.step);
  const int first = last ? 1 : 2;  // the axis of rows
  const auto of_index = [&]<typename Index>(Index) {
    return visit_any_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
      const auto tables =
          std::make_shared<const DeviceTables<Wide<T>>>(request.driver, taps.rows, taps.columns);
      const int64_t channels = last ? x[3] : 1;
      const Resizing<Index, Wide<T>> resizing{tables->rows(),
                                              tables->columns(),
                                              static_cast<Index>(x[first]),
                                              static_cast<Index>(x[first + 1]),
                                              static_cast<Index>(channels),
                                              Divider(taps.rows.count),
                                              Divider(taps.columns.count),
                                              Divider(channels)};
      return {
          [resizing, tables, name, n = y.elements()](const Buffers& b, const LaunchState& state) {
            launch(state, name, shape_for(n), mix_pixels<Index, T>, resizing, input<T>(b, 0),
                   output<T>(b, 0), n);
          }};
    });
  };
  const bool narrow = std::max(x.elements(), y.elements()) < kNarrow;
  return narrow ? of_index(int32_t{}) : of_index(int64_t{});
}

/// Returns the axis along which rows are stored.
int first_axis(const Request& request) { return has_channels_last(request.step) ? 1 : 2; }

Kernel prepare_resize(const Request& request) {
  return resize_kernel(request, "resize",
                       {request.step.attributes, request.inputs[0].shape, request.outputs[0].shape,
                        first_axis(request), false});
}

Kernel prepare_resize_grad(const Request& request) {
  return resize_kernel(request, "resize_grad",
                       {request.step.attributes, request.outputs[0].shape, request.inputs[0].shape,
                        first_axis(request), true});
}

}  // namespace

std::span<const KernelEntry> kernels::resize() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "resize",
       .prepare = prepare_resize,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kFlag},
      {.op = "resize_grad",
       .prepare = prepare_resize_grad,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kFlag},
  };
  return kKernels;
}

}  // namespace flow::cuda
