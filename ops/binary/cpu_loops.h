// Kernels of the functions of two or three numbers that broadcast (listed in binary.def). They
// process elements in memory order, so they support any layout that all operands share.
#pragma once

#include "ops/binary/binary.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {

// Declares run_block(f, block, a, b, y) and the variant with c, which compute y = f(a, b) or y =
// f(a, b, c) over a block, compiled for the instruction sets of the CPU.
#define FLOW_PAIR_FUNCTOR(op, Function)                                                       \
  void run_block(functions::Function<float> f, const Broadcast::Block& block, const float* a, \
                 const float* b, float* y);
#define FLOW_TRIPLE_FUNCTOR(op, Function)                                                     \
  void run_block(functions::Function<float> f, const Broadcast::Block& block, const float* a, \
                 const float* b, const float* c, float* y);
#include "ops/binary/binary.def"

/// Returns the kernel of a function of two floats.
template <template <typename> class F>
Kernel pair_kernel(const Request& request) {
  const auto f = functions::with_attributes<F, float>(request.step.attributes);
  return broadcast_kernel(request, [f](const Broadcast::Block& block, const Buffers& buffers) {
    run_block(f, block, input<float>(buffers, 0), input<float>(buffers, 1),
              output<float>(buffers, 0));
  });
}

/// Returns the kernel of a function of two floats or two integers.
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

/// Returns the kernel of a function of three floats.
template <template <typename> class F>
Kernel triple_kernel(const Request& request) {
  const auto f = functions::with_attributes<F, float>(request.step.attributes);
  return broadcast_kernel(request, [f](const Broadcast::Block& block, const Buffers& buffers) {
    run_block(f, block, input<float>(buffers, 0), input<float>(buffers, 1),
              input<float>(buffers, 2), output<float>(buffers, 0));
  });
}

}  // namespace flow::cpu::fast
