// Reference: repetition to a larger shape.
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/reference/index.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_broadcast_to(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [x = request.inputs[0].shape, out = request.outputs[0].shape](
                        const Buffers& buffers, const CallState&) {
      for (int64_t i = 0, n = out.elements(); i < n; ++i)
        output<T>(buffers, 0)[i] = input<T>(buffers, 0)[operand_index(out, i, x)];
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> broadcast_to() {
  static constexpr KernelEntry kKernels[] = {{"broadcast_to", prepare_broadcast_to}};
  return kKernels;
}

}  // namespace flow::cpu::reference
