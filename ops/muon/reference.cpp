// Reference: Muon, but for its products, as its formulas stand.
#include <cmath>

#include "ops/optimizer/reference_update.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_muon_direction(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(), scale = GradientScale(request, 1),
                     momentum = number(request, "momentum"),
                     nesterov = request.step.attributes.get<bool>("nesterov")](
                        const Buffers& buffers, const CallState&) {
      const double factor = scale.operator()<T>(buffers);
      const bool skipped = std::isnan(factor);
      for (int64_t i = 0; i < n; ++i) {
        const double old = double_at<T>(buffers, 1, i);
        const double part = (1 - momentum) * factor * double_at<T>(buffers, 0, i);
        const double mean = momentum * old + part;
        const double direction = nesterov ? momentum * mean + part : mean;
        output<T>(buffers, 0)[i] = static_cast<T>(skipped ? 0 : direction);
        output<T>(buffers, 1)[i] = static_cast<T>(skipped ? old : mean);
      }
    };
  });
  return kernel;
}

Kernel prepare_muon_polynomial(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rows = request.outputs[0].shape[0], n = request.outputs[0].shape.elements(),
                     a = number(request, "a"), b = number(request, "b"),
                     c = number(request, "c")](const Buffers& buffers, const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const double identity = i % (rows + 1) == 0 ? 1 : 0;
        output<T>(buffers, 0)[i] = static_cast<T>(a * identity + b * double_at<T>(buffers, 0, i) +
                                                  c * double_at<T>(buffers, 1, i));
      }
    };
  });
  return kernel;
}

Kernel prepare_muon_update(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(), scale = number(request, "scale"),
                     rate_scale = number(request, "rate_scale"),
                     decay = number(request, "weight_decay")](const Buffers& buffers,
                                                              const CallState& call) {
      const double rate = call.learning_rate * rate_scale;
      for (int64_t i = 0; i < n; ++i) {
        const double w = double_at<T>(buffers, 1, i);
        output<T>(buffers, 0)[i] =
            static_cast<T>(w - rate * scale * double_at<T>(buffers, 0, i) - rate * decay * w);
      }
    };
    kernel.launch = unless_skipped<T, 1>(request, std::move(kernel.launch));
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> muon() {
  static constexpr KernelEntry kKernels[] = {
      {"muon_direction", prepare_muon_direction},
      {"muon_polynomial", prepare_muon_polynomial},
      {"muon_update", prepare_muon_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
