// broadcast_to: one operand repeated to a larger shape.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

struct First {
  template <typename T>
  FLOW_INLINE T operator()(T a, T) const {
    return a;
  }
};

/// Elements of one size are repeated alike, whatever they mean.
Kernel prepare_broadcast_to(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) {
    return broadcast_kernel(request, [](const Broadcast::Block& block, const Buffers& buffers) {
      const T* from = input<T>(buffers, 0);
      apply_block(First{}, block, from, from, output<T>(buffers, 0));
    });
  });
}

}  // namespace

std::span<const KernelEntry> broadcast_to() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "broadcast_to", .prepare = prepare_broadcast_to, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
