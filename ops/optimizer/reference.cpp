// Reference: the optimizers' updates, as their formulas stand.
#include <array>
#include <cmath>

#include "ops/optimizer/reference_update.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

void descend(double g, std::array<double, 1>& values, const CallState& state) {
  values[0] -= state.learning_rate * g;
}

/// w += a * g with a = -lr * scale, rounded to the job's float type. An L2 penalty is added to the
/// gradient first, as by other optimizers.
Kernel prepare_sgd_update(const Request& request) {
  if (ops::l2_of(request.step.attributes) != 0) return elementwise_update<1>(request, descend);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(), scale = GradientScale(request, 1),
                     rate_scale = number(request, "rate_scale")](const Buffers& buffers,
                                                                 const CallState& state) {
      const T *g = input<T>(buffers, 0), *w = input<T>(buffers, 1);
      const double rate = state.at_rate(rate_scale).learning_rate;
      const auto a = static_cast<T>(-rate * scale.operator()<T>(buffers));
      for (int64_t i = 0; i < n; ++i) output<T>(buffers, 0)[i] = w[i] + a * g[i];
    };
    kernel.launch = unless_skipped<T, 1>(request, std::move(kernel.launch));
  });
  return kernel;
}

Kernel prepare_sparse_sgd_update(const Request& request) {
  return sparse_update<1>(request, descend);
}

/// PyTorch's SparseAdam: epsilon is added to the root before that is corrected.
Kernel prepare_sparse_adam_update(const Request& request) {
  return sparse_update<3>(request,
                          [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                           epsilon = number(request, "epsilon"),
                           corrected = request.step.attributes.get<bool>("bias_correction")](
                              double g, std::array<double, 3>& values, const CallState& state) {
                            auto& [w, m, v] = values;
                            m = beta1 * m + (1 - beta1) * g;
                            v = beta2 * v + (1 - beta2) * g * g;
                            const double rate = state.learning_rate *
                                                std::sqrt(gathered(beta2, corrected, state.step)) /
                                                gathered(beta1, corrected, state.step);
                            w -= rate * m / (std::sqrt(v) + epsilon);
                          });
}

/// m = b*m + g; w -= lr*m + lr*wd*w, with Nesterov lr*(g + b*m) for lr*m.
Kernel prepare_momentum_update(const Request& request) {
  return elementwise_update<2>(
      request, [momentum = number(request, "momentum"), decay = number(request, "weight_decay"),
                nesterov = request.step.attributes.get<bool>("nesterov")](
                   double g, std::array<double, 2>& values, const CallState& state) {
        auto& [w, m] = values;
        m = momentum * m + g;
        const double direction = nesterov ? g + momentum * m : m;
        w = w - state.learning_rate * direction - state.learning_rate * decay * w;
      });
}

/// AMSGrad, which moves 4 arrays, divides by the root of the largest v so far, the last array.
template <size_t kMoved>
Kernel prepare_adam_update(const Request& request) {
  return elementwise_update<kMoved>(
      request, [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                epsilon = number(request, "epsilon"), decay = number(request, "weight_decay"),
                corrected = request.step.attributes.get<bool>("bias_correction")](
                   double g, std::array<double, kMoved>& values, const CallState& state) {
        double &w = values[0], &m = values[1], &v = values[2];
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        double& largest = values[kMoved - 1];
        largest = std::max(largest, v);
        const double mean = m / gathered(beta1, corrected, state.step);
        const double root = std::sqrt(largest / gathered(beta2, corrected, state.step));
        w = w - state.learning_rate * mean / (root + epsilon) - state.learning_rate * decay * w;
      });
}

/// Arrays: w, ms, mg of a centered update, momentum of one with momentum. The variance is not below
/// 0, whatever rounding says.
template <bool kCentered, bool kMomentum>
Kernel prepare_rmsprop_update(const Request& request) {
  constexpr size_t kMoved = 2 + kCentered + kMomentum;
  [[maybe_unused]] double momentum = 0;
  if constexpr (kMomentum) momentum = number(request, "momentum");
  return elementwise_update<kMoved>(
      request, [=, decay = number(request, "decay_rate"),
                epsilons = ops::RmspropEpsilons::of(request.step.attributes)](
                   double g, std::array<double, kMoved>& values, const CallState& state) {
        double &w = values[0], &ms = values[1];
        ms = (1 - decay) * g * g + decay * ms;
        double variance = ms;
        if constexpr (kCentered) {
          double& mg = values[2];
          mg = (1 - decay) * g + decay * mg;
          variance = std::max(0.0, ms - mg * mg);
        }
        double direction = g / (std::sqrt(variance + epsilons.inside) + epsilons.outside);
        if constexpr (kMomentum) {
          double& m = values[kMoved - 1];
          m = direction = momentum * m + direction;
        }
        w -= state.learning_rate * direction;
      });
}

}  // namespace

std::span<const KernelEntry> optimizer() {
  static constexpr KernelEntry kKernels[] = {
      {"sgd_update", prepare_sgd_update},
      {"sparse_sgd_update", prepare_sparse_sgd_update},
      {"momentum_update", prepare_momentum_update},
      {"adam_update", prepare_adam_update<3>},
      {"sparse_adam_update", prepare_sparse_adam_update},
      {"amsgrad_update", prepare_adam_update<4>},
      {"rmsprop_update", prepare_rmsprop_update<false, false>},
      {"centered_rmsprop_update", prepare_rmsprop_update<true, false>},
      {"momentum_rmsprop_update", prepare_rmsprop_update<false, true>},
      {"centered_momentum_rmsprop_update", prepare_rmsprop_update<true, true>},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
