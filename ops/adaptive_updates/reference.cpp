// Reference: updates of gradients that their own history or their sign scales, as their formulas
// stand.
#include <array>
#include <cmath>

#include "ops/optimizer/reference_update.h"
#include "runtime/base/optimizer_math.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

auto adagrad_move(const Request& request) {
  return [epsilon = number(request, "epsilon")](double g, std::array<double, 2>& values,
                                                const CallState& state) {
    auto& [w, sum] = values;
    sum += g * g;
    w -= state.learning_rate * g / (std::sqrt(sum) + epsilon);
  };
}

Kernel prepare_adagrad_update(const Request& request) {
  return elementwise_update<2>(request, adagrad_move(request));
}

Kernel prepare_sparse_adagrad_update(const Request& request) {
  return sparse_update<2>(request, adagrad_move(request));
}

Kernel prepare_adadelta_update(const Request& request) {
  return elementwise_update<3>(
      request, [decay = number(request, "decay_rate"), epsilon = number(request, "epsilon")](
                   double g, std::array<double, 3>& values, const CallState& state) {
        auto& [w, square, delta] = values;
        square = decay * square + (1 - decay) * g * g;
        const double moved = std::sqrt(delta + epsilon) / std::sqrt(square + epsilon) * g;
        delta = decay * delta + (1 - decay) * moved * moved;
        w -= state.learning_rate * moved;
      });
}

Kernel prepare_nadam_update(const Request& request) {
  return elementwise_update<3>(
      request, [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                epsilon = number(request, "epsilon"), decay = number(request, "weight_decay"),
                growth = std::pow(0.96, number(request, "momentum_decay"))](
                   double g, std::array<double, 3>& values, const CallState& state) {
        auto& [w, m, v] = values;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        const NadamFactors factors = nadam_factors(beta1, growth, state.step);
        const double root = std::sqrt(v / gathered(beta2, true, state.step)) + epsilon;
        const double direction = (factors.gradient * g + factors.mean * m) / root;
        w = w - state.learning_rate * direction - state.learning_rate * decay * w;
      });
}

Kernel prepare_radam_update(const Request& request) {
  return elementwise_update<3>(
      request, [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                epsilon = number(request, "epsilon"), decay = number(request, "weight_decay")](
                   double g, std::array<double, 3>& values, const CallState& state) {
        auto& [w, m, v] = values;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        double direction = m / gathered(beta1, true, state.step);
        if (const double factor = rectification(beta2, state.step); factor > 0)
          direction *=
              factor * std::sqrt(gathered(beta2, true, state.step)) / (std::sqrt(v) + epsilon);
        w = w - state.learning_rate * direction - state.learning_rate * decay * w;
      });
}

Kernel prepare_lion_update(const Request& request) {
  return elementwise_update<2>(
      request, [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                decay = number(request, "weight_decay")](double g, std::array<double, 2>& values,
                                                         const CallState& state) {
        auto& [w, m] = values;
        const double mixed = beta1 * m + (1 - beta1) * g;
        const double direction = mixed > 0 ? 1 : mixed < 0 ? -1 : mixed;
        w = w - state.learning_rate * direction - state.learning_rate * decay * w;
        m = beta2 * m + (1 - beta2) * g;
      });
}

Kernel prepare_ftrl_update(const Request& request) {
  return elementwise_update<3>(
      request,
      [beta = number(request, "beta"), l1 = number(request, "l1"), l2 = number(request, "l2")](
          double g, std::array<double, 3>& values, const CallState& state) {
        const double rate = state.learning_rate;
        if (!std::isfinite(1 / rate)) return;
        auto& [w, n, z] = values;
        const double before = std::sqrt(n);
        n += g * g;
        z += g - (std::sqrt(n) - before) / rate * w;
        const double pulled = z > l1 ? z - l1 : z < -l1 ? z + l1 : z * 0;
        w = -pulled / ((beta + std::sqrt(n)) / rate + l2);
      });
}

}  // namespace

std::span<const KernelEntry> adaptive_updates() {
  static constexpr KernelEntry kKernels[] = {
      {"adagrad_update", prepare_adagrad_update},
      {"sparse_adagrad_update", prepare_sparse_adagrad_update},
      {"adadelta_update", prepare_adadelta_update},
      {"nadam_update", prepare_nadam_update},
      {"radam_update", prepare_radam_update},
      {"lion_update", prepare_lion_update},
      {"ftrl_update", prepare_ftrl_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
