// Kernels of functions of two or three numbers that broadcast: binary.def lists them. They go over
// memory as it lies, so any layout will do that all operands share. And scale.
#include "ops/binary.h"

#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

using Block = Broadcast::Block;

template <template <typename> class F>
Kernel kernel_of_integer_pairs(const Request& request) {
  return visit_integer(request.inputs[0].dtype, [&]<typename T>(T) {
    return broadcast_kernel(request, [](const Block& block, const Buffers& buffers) {
      apply_block(F<T>{}, block, input<T>(buffers, 0), input<T>(buffers, 1), output<T>(buffers, 0));
    });
  });
}

// A loop of each function, since not every compiler clones templates for what the CPU has.
#define FLOW_NUMBER_PAIR(op, Function) FLOW_PAIR(op, Function)
#define FLOW_PAIR(op, Function)                                                     \
  FLOW_VECTORISED void op##_block(functions::Function<float> f, const Block& block, \
                                  const float* a, const float* b, float* y) {       \
    apply_block(f, block, a, b, y);                                                 \
  }
#define FLOW_TRIPLE(op, Function)                                                             \
  FLOW_VECTORISED void op##_block(functions::Function<float> f, const Block& block,           \
                                  const float* a, const float* b, const float* c, float* y) { \
    apply_block(f, block, a, b, c, y);                                                        \
  }
#define FLOW_COMPARISON(op, Function)
#include "ops/binary.def"
#undef FLOW_NUMBER_PAIR
#undef FLOW_PAIR
#undef FLOW_TRIPLE

}  // namespace

#define FLOW_NUMBER_PAIR(op, Function)                                                \
  Kernel op(const Request& request) {                                                 \
    if (is_integer(request.inputs[0].dtype))                                          \
      return kernel_of_integer_pairs<functions::Function>(request);                   \
    return broadcast_kernel(request, [](const Block& block, const Buffers& buffers) { \
      op##_block({}, block, input<float>(buffers, 0), input<float>(buffers, 1),       \
                 output<float>(buffers, 0));                                          \
    });                                                                               \
  }
#define FLOW_PAIR(op, Function)                                                          \
  Kernel op(const Request& request) {                                                    \
    const auto f =                                                                       \
        functions::with_attributes<functions::Function, float>(request.step.attributes); \
    return broadcast_kernel(request, [f](const Block& block, const Buffers& buffers) {   \
      op##_block(f, block, input<float>(buffers, 0), input<float>(buffers, 1),           \
                 output<float>(buffers, 0));                                             \
    });                                                                                  \
  }
#define FLOW_TRIPLE(op, Function)                                                        \
  Kernel op(const Request& request) {                                                    \
    const auto f =                                                                       \
        functions::with_attributes<functions::Function, float>(request.step.attributes); \
    return broadcast_kernel(request, [f](const Block& block, const Buffers& buffers) {   \
      op##_block(f, block, input<float>(buffers, 0), input<float>(buffers, 1),           \
                 input<float>(buffers, 2), output<float>(buffers, 0));                   \
    });                                                                                  \
  }
#include "ops/binary.def"
#undef FLOW_NUMBER_PAIR
#undef FLOW_PAIR
#undef FLOW_TRIPLE
#undef FLOW_COMPARISON

Kernel scale(const Request& request) {
  Kernel kernel;
  kernel.launch = [factor = static_cast<float>(request.step.attributes.get<double>("factor")),
                   threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      scale_to(input<float>(buffers, 0) + first, factor, output<float>(buffers, 0) + first,
               end - first);
    });
  };
  return kernel;
}

}  // namespace flow::cpu::fast
