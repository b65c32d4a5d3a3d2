// Reference: averages of variables, and Lookahead around an optimizer.
#include "runtime/base/optimizer_math.h"
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

Kernel prepare_lookahead_start(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(),
                     steps = request.step.attributes.get<int64_t>("steps")](
                        const Buffers& buffers, const CallState& state) {
      const T* from = input<T>(buffers, begins_cycle(steps, state.step) ? 0 : 1);
      for (int64_t i = 0; i < n; ++i) output<T>(buffers, 0)[i] = from[i];
    };
  });
  return kernel;
}

Kernel prepare_lookahead_update(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(), alpha = number(request, "alpha"),
                     steps = request.step.attributes.get<int64_t>("steps")](
                        const Buffers& buffers, const CallState& state) {
      for (int64_t i = 0; i < n; ++i) {
        const double slow = double_at<T>(buffers, 0, i), w = double_at<T>(buffers, 1, i);
        output<T>(buffers, 0)[i] =
            static_cast<T>(ends_cycle(steps, state.step) ? slow + alpha * (w - slow) : w);
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> weight_averages() {
  static constexpr KernelEntry kKernels[] = {
      {"ema_update", prepare_ema_update},
      {"lookahead_start", prepare_lookahead_start},
      {"lookahead_update", prepare_lookahead_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
