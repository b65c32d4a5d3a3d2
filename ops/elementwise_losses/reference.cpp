// Reference: losses of elements, and their gradients.
#include <cmath>

#include "ops/core/reference_map.h"
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

}  // namespace

std::span<const KernelEntry> elementwise_losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, ...) {#op, prepare_##op}, {#op "_grad", prepare_##op##_grad},
#include "ops/arithmetic/binary.def"
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
