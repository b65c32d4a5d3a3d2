// broadcast_to: one operand repeated to a larger shape.
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

struct First {
  FLOW_INLINE float operator()(float a, float) const { return a; }
};

Kernel prepare_broadcast_to(const Request& request) {
  return broadcast_kernel(request, [](const Broadcast::Block& block, const Buffers& buffers) {
    const float* from = input<float>(buffers, 0);
    apply_block(First{}, block, from, from, output<float>(buffers, 0));
  });
}

}  // namespace

std::span<const KernelEntry> broadcast_to() {
  static constexpr KernelEntry kKernels[] = {{"broadcast_to", prepare_broadcast_to}};
  return kKernels;
}

}  // namespace flow::cpu::fast
