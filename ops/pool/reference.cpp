// Reference kernels of max pooling, which pads with -inf, of average pooling, which ignores
// padding, and of their gradients.
#include <cmath>
#include <limits>

#include "ops/pool/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// The largest element of one window, or its first NaN, and its place kh*KW+kw.
struct Maximum {
  double value = -std::numeric_limits<double>::infinity();
  int64_t place = 0;
};

template <typename T>
Maximum largest_in(const PoolWindows& w, const T* plane, int64_t row, int64_t column) {
  Maximum found;
  bool any = false;
  for (int64_t kh = 0; kh < w.rows.size; ++kh) {
    for (int64_t kw = 0; kw < w.columns.size; ++kw) {
      const int64_t h = w.rows.start(row) + kh, c = w.columns.start(column) + kw;
      if (h < 0 || h >= w.rows.input || c < 0 || c >= w.columns.input) continue;
      const auto value = static_cast<double>(plane[h * w.columns.input + c]);
      const bool first_nan = std::isnan(value) && !std::isnan(found.value);
      if (!any || first_nan || value > found.value) found = {value, kh * w.columns.size + kw};
      any = true;
    }
  }
  return found;
}

template <typename T, typename Place>
void pool_plane(const PoolWindows& w, const T* x, T* y, Place* places) {
  for (int64_t i = 0; i < w.rows.output * w.columns.output; ++i) {
    const Maximum found = largest_in(w, x, i / w.columns.output, i % w.columns.output);
    y[i] = static_cast<T>(found.value);
    if (places) places[i] = static_cast<Place>(found.place);
  }
}

template <typename T, typename Place>
void spread_plane(const PoolWindows& w, const T* dy, const Place* places, T* dx) {
  std::fill_n(dx, w.rows.input * w.columns.input, T{0});
  for (int64_t i = 0; i < w.rows.output * w.columns.output; ++i) {
    const int64_t h = w.rows.start(i / w.columns.output) + places[i] / w.columns.size;
    const int64_t c = w.columns.start(i % w.columns.output) + places[i] % w.columns.size;
    if (h >= 0 && h < w.rows.input && c >= 0 && c < w.columns.input)
      dx[h * w.columns.input + c] += dy[i];
  }
}

template <typename F>
auto visit_place(DType dtype, F f) {
  return dtype == DType::kUInt8 ? f(uint8_t{}) : f(int32_t{});
}

Kernel prepare_max_pool2d(const Request& request) {
  const Pooling pooling(request.step.attributes, request.inputs[0].shape, request.outputs[0].shape);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    visit_place(request.outputs[1].dtype, [&]<typename Place>(Place) {
      kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
        parallel_for(threads, pooling.planes, [&](int64_t plane, int) {
          Place* places = output<Place>(buffers, 1);
          pool_plane(pooling.window, input<T>(buffers, 0) + plane * pooling.input_plane(),
                     output<T>(buffers, 0) + plane * pooling.output_plane(),
                     places ? places + plane * pooling.output_plane() : nullptr);
        });
      };
    });
  });
  return kernel;
}

Kernel prepare_max_pool2d_grad(const Request& request) {
  const Pooling pooling(request.step.attributes, request.outputs[0].shape, request.inputs[0].shape);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    visit_place(request.inputs[1].dtype, [&]<typename Place>(Place) {
      kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
        parallel_for(threads, pooling.planes, [&](int64_t plane, int) {
          spread_plane(pooling.window, input<T>(buffers, 0) + plane * pooling.output_plane(),
                       input<Place>(buffers, 1) + plane * pooling.output_plane(),
                       output<T>(buffers, 0) + plane * pooling.input_plane());
        });
      };
    });
  });
  return kernel;
}

/// Calls f(i) for each element of a plane that lies in the window, where i is the element's number.
template <typename F>
void for_window(const PoolWindows& w, int64_t row, int64_t column, F f) {
  const WindowRange<int64_t> kh = w.rows.inside(row), kw = w.columns.inside(column);
  for (int64_t i = kh.first; i < kh.end; ++i)
    for (int64_t k = kw.first; k < kw.end; ++k)
      f((w.rows.start(row) + i) * w.columns.input + w.columns.start(column) + k);
}

/// Calls f(i, row, column) for each window of a plane.
template <typename F>
void for_each_window(const PoolWindows& w, F f) {
  for (int64_t i = 0; i < w.rows.output * w.columns.output; ++i)
    f(i, i / w.columns.output, i % w.columns.output);
}

Kernel prepare_avg_pool2d(const Request& request) {
  const Pooling pooling(request.step.attributes, request.inputs[0].shape, request.outputs[0].shape);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t plane = 0; plane < pooling.planes; ++plane) {
        const T* x = input<T>(buffers, 0) + plane * pooling.input_plane();
        T* y = output<T>(buffers, 0) + plane * pooling.output_plane();
        for_each_window(pooling.window, [&](int64_t i, int64_t row, int64_t column) {
          double sum = 0, count = 0;
          for_window(pooling.window, row, column, [&](int64_t at) {
            sum += static_cast<double>(x[at]);
            ++count;
          });
          y[i] = static_cast<T>(sum / count);
        });
      }
    };
  });
  return kernel;
}

Kernel prepare_avg_pool2d_grad(const Request& request) {
  const Pooling pooling(request.step.attributes, request.outputs[0].shape, request.inputs[0].shape);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(pooling.input_plane()) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      double* sums = reinterpret_cast<double*>(buffers.workspace);
      for (int64_t plane = 0; plane < pooling.planes; ++plane) {
        const T* dy = input<T>(buffers, 0) + plane * pooling.output_plane();
        T* dx = output<T>(buffers, 0) + plane * pooling.input_plane();
        std::fill_n(sums, pooling.input_plane(), 0.0);
        for_each_window(pooling.window, [&](int64_t i, int64_t row, int64_t column) {
          double count = 0;
          for_window(pooling.window, row, column, [&](int64_t) { ++count; });
          for_window(pooling.window, row, column,
                     [&](int64_t at) { sums[at] += static_cast<double>(dy[i]) / count; });
        });
        for (int64_t i = 0; i < pooling.input_plane(); ++i) dx[i] = static_cast<T>(sums[i]);
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> pool() {
  static constexpr KernelEntry kKernels[] = {
      {"max_pool2d", prepare_max_pool2d},
      {"max_pool2d_grad", prepare_max_pool2d_grad},
      {"avg_pool2d", prepare_avg_pool2d},
      {"avg_pool2d_grad", prepare_avg_pool2d_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
