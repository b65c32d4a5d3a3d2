// Elementwise kernels of one float operand (relu, scale and their kin) and of two that broadcast
// (add, multiply). They go over memory as it lies, so any layout will do that all operands share.
#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/features.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu::fast {
namespace {

// The result may lie exactly on an operand: `omp simd` says that iterations are independent.

/// y = x > 0 ? x : 0
FLOW_VECTORISED void relu_piece(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}

/// dx = y > 0 ? dy : 0
FLOW_VECTORISED void relu_grad_piece(const float* dy, const float* y, float* dx, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0 ? dy[i] : 0;
}

FLOW_VECTORISED void scale_piece(const float* x, float factor, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

/// Integers wrap around, as NumPy's do.
struct Add {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
};

struct Multiply {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};

FLOW_VECTORISED void add_block(const Broadcast::Block& block, const float* a, const float* b,
                               float* y) {
  apply_block<Add>(block, a, b, y);
}

FLOW_VECTORISED void multiply_block(const Broadcast::Block& block, const float* a, const float* b,
                                    float* y) {
  apply_block<Multiply>(block, a, b, y);
}

template <typename T, typename BlockKernel>
Kernel broadcast_kernel(const Request& request, BlockKernel run) {
  Kernel kernel;
  kernel.launch = [=, threads = request.threads,
                   loops = Broadcast(request.inputs[0], request.inputs[1], request.outputs[0])](
                      const Buffers& buffers, const CallState&) {
    const T *a = input<T>(buffers, 0), *b = input<T>(buffers, 1);
    T* y = output<T>(buffers, 0);
    parallel_for(threads, loops.chunks(), [&](int64_t chunk, int) {
      loops.for_blocks(chunk, [&](const Broadcast::Block& block) { run(block, a, b, y); });
    });
  };
  return kernel;
}

template <typename Op>
Kernel integer_kernel(const Request& request) {
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return broadcast_kernel<T>(request, apply_block<Op, T, T>);
  });
}

/// A Kernel that calls run(x, y, n) on each piece of the operand.
template <typename Run>
Kernel map_kernel(const Request& request, Run run) {
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    const float* x = input<float>(buffers, 0);
    float* y = output<float>(buffers, 0);
    for_pieces(threads, n, kPiece,
               [&](int64_t first, int64_t end) { run(x + first, y + first, end - first); });
  };
  return kernel;
}

}  // namespace

Kernel relu(const Request& request) { return map_kernel(request, relu_piece); }

Kernel relu_grad(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    const float *dy = input<float>(buffers, 0), *y = input<float>(buffers, 1);
    float* dx = output<float>(buffers, 0);
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      relu_grad_piece(dy + first, y + first, dx + first, end - first);
    });
  };
  return kernel;
}

Kernel scale(const Request& request) {
  const auto factor = static_cast<float>(request.step.attributes.get<double>("factor"));
  return map_kernel(
      request, [factor](const float* x, float* y, int64_t n) { scale_piece(x, factor, y, n); });
}

Kernel add(const Request& request) {
  if (is_integer(request.inputs[0].dtype)) return integer_kernel<Add>(request);
  return broadcast_kernel<float>(request, add_block);
}

Kernel multiply(const Request& request) {
  if (is_integer(request.inputs[0].dtype)) return integer_kernel<Multiply>(request);
  return broadcast_kernel<float>(request, multiply_block);
}

}  // namespace flow::cpu::fast
