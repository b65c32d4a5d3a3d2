// Reference: the updates of LARS and LAMB, whose rates depend on norms.
#include <cmath>

#include "ops/optimizer/reference_update.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_lars_update(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch =
        [n = request.outputs[0].shape.elements(), scale = GradientScale(request, 2),
         momentum = number(request, "momentum_beta"),
         coefficient = number(request, "lars_coefficient"), epsilon = number(request, "epsilon"),
         rate_scale = number(request, "rate_scale"),
         decay = number(request, "weight_decay")](const Buffers& buffers, const CallState& state) {
          const T *g = input<T>(buffers, 0), *w = input<T>(buffers, 1), *m = input<T>(buffers, 2);
          const double factor = scale.operator()<T>(buffers);
          const double size = std::sqrt(squares(w, n) / static_cast<double>(n));
          const double slope = std::abs(factor) * std::sqrt(squares(g, n) / static_cast<double>(n));
          const double ratio =
              size > 0 && slope > 0 ? coefficient * size / (slope + decay * size + epsilon) : 1;
          const double rate = state.at_rate(rate_scale).learning_rate * ratio;
          for (int64_t i = 0; i < n; ++i) {
            const auto old = static_cast<double>(w[i]);
            const double pulled = factor * static_cast<double>(g[i]) + decay * old;
            const double moved = momentum * static_cast<double>(m[i]) - rate * pulled;
            output<T>(buffers, 0)[i] = static_cast<T>(old + moved);
            output<T>(buffers, 1)[i] = static_cast<T>(moved);
          }
        };
    kernel.launch = unless_skipped<T, 2>(request, std::move(kernel.launch));
  });
  return kernel;
}

Kernel prepare_lamb_update(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.workspace = static_cast<size_t>(request.outputs[0].shape.elements()) * sizeof(double);
    kernel.launch = [n = request.outputs[0].shape.elements(), scale = GradientScale(request, 3),
                     beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                     epsilon = number(request, "epsilon"),
                     rate_scale = number(request, "rate_scale"),
                     decay = number(request, "weight_decay")](const Buffers& buffers,
                                                              const CallState& state) {
      const T *g = input<T>(buffers, 0), *w = input<T>(buffers, 1);
      const T *old_m = input<T>(buffers, 2), *old_v = input<T>(buffers, 3);
      double* movement = reinterpret_cast<double*>(buffers.workspace);
      const double factor = scale.operator()<T>(buffers);
      for (int64_t i = 0; i < n; ++i) {
        const double scaled = factor * static_cast<double>(g[i]);
        const double m = beta1 * static_cast<double>(old_m[i]) + (1 - beta1) * scaled;
        const double v = beta2 * static_cast<double>(old_v[i]) + (1 - beta2) * scaled * scaled;
        const double mean = m / gathered(beta1, true, state.step);
        const double root = std::sqrt(v / gathered(beta2, true, state.step));
        movement[i] = mean / (root + epsilon) + decay * static_cast<double>(w[i]);
        output<T>(buffers, 1)[i] = static_cast<T>(m);
        output<T>(buffers, 2)[i] = static_cast<T>(v);
      }
      const double size = std::sqrt(squares(w, n)), step = std::sqrt(squares(movement, n));
      const double ratio = size > 0 && step > 0 ? size / step : 1;
      const double rate = state.at_rate(rate_scale).learning_rate * ratio;
      for (int64_t i = 0; i < n; ++i)
        output<T>(buffers, 0)[i] = static_cast<T>(static_cast<double>(w[i]) - rate * movement[i]);
    };
    kernel.launch = unless_skipped<T, 3>(request, std::move(kernel.launch));
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> lars_lamb() {
  static constexpr KernelEntry kKernels[] = {
      {"lars_update", prepare_lars_update},
      {"lamb_update", prepare_lamb_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
