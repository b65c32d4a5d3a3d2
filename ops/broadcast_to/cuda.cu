// broadcast_to: one operand repeated to a larger shape.
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/map.cuh"
#include "runtime/cuda/loops/operands.h"

namespace flow::cuda {
namespace {

struct First {
  template <typename T>
  __device__ T operator()(T a, T) const {
    return a;
  }
};

Kernel prepare_broadcast_to(const Request& request) {
  const Shape &x = request.inputs[0].shape, &out = request.outputs[0].shape;
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[loops = broadcast_loops<2>({x, x}, out), n = out.elements()](
                const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "broadcast_to", shape_for(n), map_pairs<T, T, First>,
             loops, input<T>(buffers, 0), input<T>(buffers, 0), output<T>(buffers, 0), n, First{});
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::broadcast_to() {
  static constexpr KernelEntry kKernels[] = {
      {"broadcast_to", prepare_broadcast_to},
  };
  return kKernels;
}

}  // namespace flow::cuda
