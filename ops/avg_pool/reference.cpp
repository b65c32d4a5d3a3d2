// Reference: average pooling, whose padding does not count, and its gradient.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/window.h"

namespace flow::cpu::reference {
namespace {

/// Calls f(i) with the number of each element of a plane that lies in the window.
template <typename F>
void for_window(const Window& w, int64_t row, int64_t column, F f) {
  const Places kh = w.rows.inside(row), kw = w.columns.inside(column);
  for (int64_t i = kh.first; i < kh.end; ++i)
    for (int64_t k = kw.first; k < kw.end; ++k)
      f((w.rows.start(row) + i) * w.columns.input + w.columns.start(column) + k);
}

/// Calls f(i, row, column) for each window of a plane.
template <typename F>
void for_each_window(const Window& w, F f) {
  for (int64_t i = 0; i < w.rows.output * w.columns.output; ++i)
    f(i, i / w.columns.output, i % w.columns.output);
}

Kernel prepare_avg_pool2d(const Request& request) {
  const Pooling pooling(request, request.inputs[0], request.outputs[0]);
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
  const Pooling pooling(request, request.outputs[0], request.inputs[0]);
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

std::span<const KernelEntry> avg_pool() {
  static constexpr KernelEntry kKernels[] = {
      {"avg_pool2d", prepare_avg_pool2d},
      {"avg_pool2d_grad", prepare_avg_pool2d_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
