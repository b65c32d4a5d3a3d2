// The loops of functions of two or three numbers.
#include "ops/arithmetic/cpu_loops.h"

#include "runtime/base/vectorised.h"

namespace flow::cpu::fast {

// A loop of each function, since not every compiler clones templates for what the CPU has.
#define FLOW_PAIR_FUNCTOR(op, Function)                                                       \
  FLOW_VECTORISED void run_block(functions::Function<float> f, const Broadcast::Block& block, \
                                 const float* a, const float* b, float* y) {                  \
    apply_block(f, block, a, b, y);                                                           \
  }
#define FLOW_TRIPLE_FUNCTOR(op, Function)                                                     \
  FLOW_VECTORISED void run_block(functions::Function<float> f, const Broadcast::Block& block, \
                                 const float* a, const float* b, const float* c, float* y) {  \
    apply_block(f, block, a, b, c, y);                                                        \
  }
#include "ops/arithmetic/binary.def"

}  // namespace flow::cpu::fast
