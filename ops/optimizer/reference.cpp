// Reference kernels of the optimizers' updates, which compute the formulas of the rules directly,
// and of the steps that Muon runs before its update.
#include "ops/optimizer/reference_update.h"
#include "ops/optimizer/rules.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_muon_direction(const Request& request) {
  const optimizers::MuonDirection rule(request.step.attributes);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rule, n = request.outputs[0].shape.elements(),
                     scale = GradientScale(request, rule.scale, 1)](const Buffers& buffers,
                                                                    const CallState&) {
      const double scaled = scale.template operator()<T>(buffers);
      const bool skipped = std::isnan(scaled);
      for (int64_t i = 0; i < n; ++i) {
        double mean = double_at<T>(buffers, 1, i);
        const double old = mean;
        const double direction = rule.exact(double_at<T>(buffers, 0, i), scaled, mean);
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

}  // namespace

std::span<const KernelEntry> optimizer() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_UPDATE(op, rule) {#op, exact_update<optimizers::rule>},
#define FLOW_SPARSE_UPDATE(op, rule) {#op, exact_sparse_update<optimizers::rule>},
#define FLOW_LAYERWISE_UPDATE(op, rule) {#op, exact_layerwise_update<optimizers::rule>},
#include "ops/optimizer/optimizers.def"
      {"muon_direction", prepare_muon_direction},
      {"muon_polynomial", prepare_muon_polynomial},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
