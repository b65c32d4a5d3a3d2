// resize and its gradient: each row of the result is mixed from rows of the operand, then its
// columns from that. Both are sums over taps, in their order, with tables made once.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/resize_taps.h"
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kMixed = 64;  // sums that stay in registers or L1

/// ops::Taps with float weights.
struct AxisTaps {
  explicit AxisTaps(ops::Taps taps)
      : count(taps.count),
        width(taps.width),
        indices(std::move(taps.indices)),
        weights(taps.weights.begin(), taps.weights.end()) {}

  /// Is element i of the result the one element `index` of the operand?
  bool copies(int64_t i) const {
    return weights[static_cast<size_t>(i)] == 1 &&
           (width == 1 || weights[static_cast<size_t>(count + i)] == 0);
  }

  int64_t count, width;
  std::vector<int32_t> indices;
  std::vector<float> weights;
};

/// y = weight * x, n floats. Without a weight, x is not looked at.
FLOW_VECTORISED void scale_line(float weight, const float* x, int64_t n, float* y) {
  if (weight == 0) {
    std::fill_n(y, n, 0.0f);
    return;
  }
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) y[c] = weight * x[c];
}

/// Elements [first, end) of an axis whose elements are `size` floats: y[i, :] = sum of
/// weight * x[index, :].
FLOW_VECTORISED void mix_lines(const AxisTaps& axis, int64_t first, int64_t end, int64_t size,
                               const float* x, float* y) {
  const int32_t* indices = axis.indices.data();
  const float* weights = axis.weights.data();
  const int64_t step = axis.count, taps = axis.width * axis.count;
  for (int64_t i = first; i < end; ++i, y += size) {
    const float* one = x + indices[i] * size;
    int64_t k = i + step;
    if (k >= taps || weights[k] == 0) {
      scale_line(weights[i], one, size, y);
      continue;
    }
    const float* other = x + indices[k] * size;
    const float a = weights[i], b = weights[k];
#pragma omp simd
    for (int64_t c = 0; c < size; ++c) y[c] = a * one[c] + b * other[c];
    for (k += step; k < taps && weights[k] != 0; k += step) {
      const float* more = x + indices[k] * size;
      const float weight = weights[k];
#pragma omp simd
      for (int64_t c = 0; c < size; ++c) y[c] += weight * more[c];
    }
  }
}

/// The same of a whole axis of floats, side by side for neighbours.
FLOW_VECTORISED void mix_floats(const AxisTaps& axis, const float* x, float* y) {
  for (int64_t c0 = 0; c0 < axis.count; c0 += kMixed) {
    const int64_t count = std::min(kMixed, axis.count - c0);
    float sums[kMixed] = {};
    for (int64_t k = 0; k < axis.width; ++k) {
      const int32_t* indices = axis.indices.data() + k * axis.count + c0;
      const float* weights = axis.weights.data() + k * axis.count + c0;
#pragma omp simd
      for (int64_t c = 0; c < count; ++c)
        sums[c] += weights[c] != 0 ? weights[c] * x[indices[c]] : 0;
    }
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) y[c0 + c] = sums[c];
  }
}

/// Planes [rows, columns, channels] of x and y: whole images where channels are innermost, else one
/// channel of an image.
struct Resizing {
  int64_t planes, channels;
  int64_t x_rows, x_columns;  // of the operand
  AxisTaps rows, columns;

  int64_t x_line() const { return x_columns * channels; }
  int64_t y_line() const { return columns.count * channels; }

  /// Line i of all planes. `scratch` has x_line() floats.
  void make_line(int64_t i, const float* x, float* y, float* scratch) const {
    const int64_t row = i % rows.count;
    const float* plane = x + i / rows.count * x_rows * x_line();
    const float* line = scratch;
    if (rows.copies(row))
      line = plane + rows.indices[static_cast<size_t>(row)] * x_line();
    else
      mix_lines(rows, row, row + 1, x_line(), plane, scratch);
    if (channels == 1)
      mix_floats(columns, line, y + i * y_line());
    else
      mix_lines(columns, 0, columns.count, channels, line, y + i * y_line());
  }
};

Kernel launch_of(const Request& request, Resizing resizing) {
  const int64_t scratch = round_up(resizing.x_line(), 16);
  const int64_t lines = resizing.planes * resizing.rows.count;
  const int64_t piece = std::max<int64_t>(1, kPiece / 2 / (resizing.x_line() + resizing.y_line()));
  const int64_t pieces = ceil_div(lines, piece);
  Kernel kernel;
  kernel.workspace =
      static_cast<size_t>(std::min<int64_t>(request.threads, pieces) * scratch) * sizeof(float);
  kernel.launch = [=, threads = request.threads, resizing = std::move(resizing)](
                      const Buffers& buffers, const CallState&) {
    parallel_for(threads, pieces, [&](int64_t index, int worker) {
      float* own = reinterpret_cast<float*>(buffers.workspace) + worker * scratch;
      for (int64_t i = index * piece; i < std::min(lines, (index + 1) * piece); ++i)
        resizing.make_line(i, input<float>(buffers, 0), output<float>(buffers, 0), own);
    });
  };
  return kernel;
}

Kernel prepare_resize(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const bool innermost = x.layout == Layout::kChannelsLast;
  const auto taps = [&](int axis) {
    return AxisTaps(ops::resize_taps(request.step.attributes, x.shape[axis], y.shape[axis]));
  };
  return launch_of(request, {x.shape[0] * (innermost ? 1 : x.shape[1]), innermost ? x.shape[1] : 1,
                             x.shape[2], x.shape[3], taps(2), taps(3)});
}

Kernel prepare_resize_grad(const Request& request) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  const bool innermost = dy.layout == Layout::kChannelsLast;
  const auto taps = [&](int axis) {
    const int64_t in = dx.shape[axis];
    return AxisTaps(
        ops::transposed(ops::resize_taps(request.step.attributes, in, dy.shape[axis]), in));
  };
  return launch_of(request,
                   {dy.shape[0] * (innermost ? 1 : dy.shape[1]), innermost ? dy.shape[1] : 1,
                    dy.shape[2], dy.shape[3], taps(2), taps(3)});
}

}  // namespace

std::span<const KernelEntry> resize() {
  static constexpr KernelEntry kKernels[] = {
      {"resize", prepare_resize, Layouts::kSame},
      {"resize_grad", prepare_resize_grad, Layouts::kSame},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
