// equal: two floats of one dtype, two integers of any dtypes, or two bools -> bool.
#include "runtime/cpu/broadcast.h"
#include "runtime/cpu/operands.h"

namespace flow::cpu::fast {
namespace {

template <typename A, typename B>
void equal_block(const Broadcast::Block& block, const A* a, const B* b, bool* out) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const A* ra = a + block.a + row * block.a_row;
    const B* rb = b + block.b + row * block.b_row;
    bool* ry = out + block.out + row * block.columns;
    for (int64_t i = 0; i < block.columns; ++i)
      ry[i] = ra[i * block.a_column] == rb[i * block.b_column];
  }
}

template <typename A, typename B>
Kernel equal_of(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads,
                   loops = Broadcast(request.inputs[0], request.inputs[1], request.outputs[0])](
                      const Buffers& buffers, const CallState&) {
    parallel_for(threads, loops.chunks(), [&](int64_t chunk, int) {
      loops.for_blocks(chunk, [&](const Broadcast::Block& block) {
        equal_block(block, input<A>(buffers, 0), input<B>(buffers, 1), output<bool>(buffers, 0));
      });
    });
  };
  return kernel;
}

}  // namespace

Kernel equal(const Request& request) {
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  if (a == DType::kBool) return equal_of<bool, bool>(request);
  if (a == DType::kFloat32) return equal_of<float, float>(request);
  return visit_integer(a, [&]<typename A>(A) {
    return visit_integer(b, [&]<typename B>(B) { return equal_of<A, B>(request); });
  });
}

}  // namespace flow::cpu::fast
