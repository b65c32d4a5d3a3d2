// bias_add: y = x + bias along one axis, which is the innermost one of a channels-last tensor.
// bias_add_grad: the sum of dy over all other axes.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/channels.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/reduction.h"

namespace flow::cpu::fast {
namespace {

/// y[row, c] = x[row, c] + bias[c]
FLOW_VECTORIZED void add_bias_to_rows(const float* x, const float* bias, float* y, int64_t rows,
                                      int64_t channels) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] + bias[c];
  }
}

/// y[i] = x[i] + bias
FLOW_VECTORIZED void add_bias_to_run(const float* x, float bias, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + bias;
}

Kernel prepare_bias_add(const Request& request) {
  const ChannelView v = view_along(request.inputs[0], axis_of(request));
  const int64_t row = v.channels * v.inner;
  const int64_t rows_a_piece = std::max<int64_t>(1, kPiece / row);
  Kernel kernel;
  kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
    const float *x = input<float>(buffers, 0), *bias = input<float>(buffers, 1);
    float* y = output<float>(buffers, 0);
    for_pieces(threads, v.outer, rows_a_piece, [&](int64_t first, int64_t end) {
      if (v.inner == 1) {
        add_bias_to_rows(x + first * row, bias, y + first * row, end - first, row);
        return;
      }
      for (int64_t i = first * v.channels; i < end * v.channels; ++i)
        add_bias_to_run(x + i * v.inner, bias[i % v.channels], y + i * v.inner, v.inner);
    });
  };
  return kernel;
}

Kernel prepare_bias_add_grad(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::kFloat16) return {};
  const int axis = axis_of(request);
  std::vector<bool> reduced(static_cast<size_t>(request.inputs[0].shape.rank()), true);
  reduced[static_cast<size_t>(axis)] = false;
  const Reduction reduction(ReducedAxes(request.inputs[0], reduced));
  Kernel kernel;
  kernel.workspace = reduction.workspace();
  const auto sum = [reduction, threads = request.threads]<typename T>(const T*) -> Launch {
    return [reduction, threads](const Buffers& buffers, const CallState&) {
      reduction.sum(threads, input<T>(buffers, 0), 1, output<float>(buffers, 0), buffers.workspace);
    };
  };
  const bool low_precision = dtype == DType::kBFloat16;
  kernel.launch = low_precision ? sum(static_cast<const uint16_t*>(nullptr))
                                : sum(static_cast<const float*>(nullptr));
  return kernel;
}

}  // namespace

std::span<const KernelEntry> bias_add() {
  static constexpr KernelEntry kKernels[] = {
      {"bias_add", prepare_bias_add, Layouts::kSame},
      {.op = "bias_add_grad",
       .prepare = prepare_bias_add_grad,
       .layouts = Layouts::kSame,
       .low_precision = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
