// Reference: averages of variables.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_ema_update(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(), rest = 1 - number(request, "decay")](
                        const Buffers& buffers, const CallState& state) {
      for (int64_t i = 0; i < n; ++i) {
        const double w = double_at<T>(buffers, 0, i), average = double_at<T>(buffers, 1, i);
        output<T>(buffers, 0)[i] =
            static_cast<T>(state.step == 0 ? w : average + rest * (w - average));
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> ema() {
  static constexpr KernelEntry kKernels[] = {{"ema_update", prepare_ema_update}};
  return kKernels;
}

}  // namespace flow::cpu::reference
