// Kernels of functions of two or three numbers that broadcast: binary.def lists them. They go over
// memory as it lies, so any layout will do that all operands share.
#pragma once

#include "ops/binary/binary.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {

// run_block(f, block, a, b, y), or with c: y = f(a, b) over a block, compiled for what the CPU has.
#define FLOW_PAIR_FUNCTOR(op, Function)                                                       \
  void run_block(functions::Function<float> f, const Broadcast::Block& block, const float* a, \
                 const float* b, float* y);
#define FLOW_TRIPLE_FUNCTOR(op, Function)                                                     \
  void run_block(functions::Function<float> f, const Broadcast::Block& block, const float* a, \
                 const float* b, const float* c, float* y);
#include "ops/binary/binary.def"

/// Of two floats.
template <template <typename> class F>
Kernel pair_kernel(const Request& request) {
  const auto f = functions::with_attributes<F, float>(request.step.attributes);
  return broadcast_kernel(request, [f](const Broadcast::Block& block, const Buffers& buffers) {
    run_block(f, block, input<float>(buffers, 0), input<float>(buffers, 1),
              output<float>(buffers, 0));
  });
}

/// Of two floats or two integers.
template <template <typename> class F>
Kernel number_pair_kernel(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_integer(dtype)) return pair_kernel<F>(request);
  return visit_integer(dtype, [&]<typename T>(T) {
    return broadcast_kernel(request, [](const Broadcast::Block& block, const Buffers& buffers) {
      apply_block(F<T>{}, block, input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0));
    });
  });
}

/// Of three floats.
template <template <typename> class F>
Kernel triple_kernel(const Request& request) {
  const auto f = functions::with_attributes<F, float>(request.step.attributes);
  return broadcast_kernel(request, [f](const Broadcast::Block& block, const Buffers& buffers) {
    run_block(f, block, input<float>(buffers, 0), input<float>(buffers, 1),
              input<float>(buffers, 2), output<float>(buffers, 0));
  });
}

}  // namespace flow::cpu::fast
