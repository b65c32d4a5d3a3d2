// The loops of functions of two or three numbers.
#include "runtime/cpu/kernels/binary_loops.h"

#include "runtime/base/vectorised.h"

namespace flow::cpu::fast {

// A loop of each function, since not every compiler clones templates for what the CPU has.
#define FLOW_NUMBER_PAIR(op, Function) FLOW_PAIR(op, Function)
#define FLOW_PAIR(op, Function)                                                               \
  FLOW_VECTORISED void run_block(functions::Function<float> f, const Broadcast::Block& block, \
                                 const float* a, const float* b, float* y) {                  \
    apply_block(f, block, a, b, y);                                                           \
  }
#define FLOW_TRIPLE(op, Function)                                                             \
  FLOW_VECTORISED void run_block(functions::Function<float> f, const Broadcast::Block& block, \
                                 const float* a, const float* b, const float* c, float* y) {  \
    apply_block(f, block, a, b, c, y);                                                        \
  }
#define FLOW_COMPARISON(op, Function)
#include "ops/binary.def"
#undef FLOW_NUMBER_PAIR
#undef FLOW_PAIR
#undef FLOW_TRIPLE
#undef FLOW_COMPARISON

}  // namespace flow::cpu::fast
