// Reference kernels of elementwise losses and their gradients, and of connectionist temporal
// classification, which computes in double regardless of the dtype that it reads.
#include <cmath>

#include "ops/core/reference_loops.h"
#include "ops/losses/cpu_ctc.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

double beta_of(const Request& request) { return request.step.attributes.get<double>("beta"); }

Kernel prepare_mse(const Request& request) {
  return map_float_pairs(request, [](double a, double b) { return (a - b) * (a - b); });
}

Kernel prepare_mse_grad(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) { return 2 * dy * (a - b); });
}

Kernel prepare_l1(const Request& request) {
  return map_float_pairs(request, [](double a, double b) { return std::abs(a - b); });
}

Kernel prepare_l1_grad(const Request& request) {
  return map_float_triples(request, [](double dy, double a, double b) {
    return a > b ? dy : a < b ? -dy : 0;
  });
}

Kernel prepare_smooth_l1(const Request& request) {
  return map_float_pairs(request, [beta = beta_of(request)](double a, double b) {
    const double d = std::abs(a - b);
    return d < beta ? d * d / (2 * beta) : d - beta / 2;
  });
}

Kernel prepare_smooth_l1_grad(const Request& request) {
  return map_float_triples(request, [beta = beta_of(request)](double dy, double a, double b) {
    return dy * std::min(std::max((a - b) / beta, -1.0), 1.0);
  });
}

Kernel prepare_sigmoid_cross_entropy_with_logits(const Request& request) {
  return map_float_pairs(request, [](double z, double x) { return softplus_of(x) - x * z; });
}

Kernel prepare_sigmoid_cross_entropy_with_logits_grad(const Request& request) {
  return map_float_triples(
      request, [](double dy, double z, double x) { return dy * (1 / (1 + std::exp(-x)) - z); });
}

Kernel prepare_ctc(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[1].dtype, [&]<typename T>(T) { kernel = ctc_kernel<T>(request, 1); });
  return kernel;
}

Kernel prepare_ctc_grad(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[1].dtype,
              [&]<typename T>(T) { kernel = ctc_grad_kernel<T>(request, 1); });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, ...) {#op, prepare_##op}, {#op "_grad", prepare_##op##_grad},
#include "ops/binary/binary.def"
      {"ctc", prepare_ctc},
      {"ctc_grad", prepare_ctc_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
