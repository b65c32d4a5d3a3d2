// bias_add: y = x + bias along one axis, which is the innermost axis of a channels-last tensor.
// bias_add_grad: the sum of dy over all other axes.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/channels.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/reduction.h"

namespace flow::cpu::fast {
namespace {

/// Computes y[row, c] = x[row, c] + bias[c].
FLOW_VECTORIZED void add_bias_to_rows(const float* x, const float* bias, float* y, int64_t rows,
                                      int64_t channels) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) y[c] = x[c] + bias[c];
  }
}

/// Computes y[i] = x[i] + bias.
FLOW_VECTORIZED void add_bias_to_run(const float* x, float bias, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + bias;
}

Kernel prepare_bias_add(const Request& request) {
  const ChannelView v = view_along(request.inputs[0], axis_of(request));
  const int64_t row = v.channels * v.inner;
  return in_pieces(request, v.outer, std::max<int64_t>(1, kPiece / row), [=](const Piece& piece) {
    const float *x = input<float>(piece.buffers, 0), *bias = input<float>(piece.buffers, 1);
    float* y = output<float>(piece.buffers, 0);
    const int64_t first = piece.first * row;
    if (v.inner == 1) return add_bias_to_rows(x + first, bias, y + first, piece.size(), row);
    for (int64_t i = piece.first * v.channels; i < piece.end * v.channels; ++i)
      add_bias_to_run(x + i * v.inner, bias[i % v.channels], y + i * v.inner, v.inner);
  });
}

Kernel prepare_bias_add_grad(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (dtype == DType::kFloat16) return {};
  std::vector<bool> reduced(static_cast<size_t>(request.inputs[0].shape.rank()), true);
  reduced[static_cast<size_t>(axis_of(request))] = false;
  const Reduction reduction(ReducedAxes(request.inputs[0], reduced));
  const auto sum = [&]<typename T>(T) -> Kernel {
    return {[reduction, threads = request.threads](const Buffers& buffers, const CallState&) {
              reduction.sum(threads, input<T>(buffers, 0), 1, output<float>(buffers, 0),
                            buffers.workspace);
            },
            reduction.workspace()};
  };
  return dtype == DType::kBFloat16 ? sum(uint16_t{}) : sum(float{});
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
