// Reference: the optimizers' updates, as their formulas stand.
#include <array>
#include <cmath>

#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/reference/update.h"

namespace flow::cpu::reference {
namespace {

/// w += a * g with a = -lr * scale, rounded to the job's float type.
Kernel prepare_sgd_update(const Request& request) {
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
  return sparse_update<1>(request,
                          [](double g, std::array<double, 1>& values, const CallState& state) {
                            values[0] -= state.learning_rate * g;
                          });
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

Kernel prepare_adam_update(const Request& request) {
  return elementwise_update<3>(
      request, [beta1 = number(request, "beta1"), beta2 = number(request, "beta2"),
                epsilon = number(request, "epsilon"), decay = number(request, "weight_decay"),
                corrected = request.step.attributes.get<bool>("bias_correction")](
                   double g, std::array<double, 3>& values, const CallState& state) {
        auto& [w, m, v] = values;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        const double mean = m / gathered(beta1, corrected, state.step);
        const double root = std::sqrt(v / gathered(beta2, corrected, state.step));
        w = w - state.learning_rate * mean / (root + epsilon) - state.learning_rate * decay * w;
      });
}

Kernel prepare_rmsprop_update(const Request& request) {
  return elementwise_update<2>(
      request, [decay = number(request, "decay_rate"), epsilon = number(request, "epsilon")](
                   double g, std::array<double, 2>& values, const CallState& state) {
        auto& [w, ms] = values;
        ms = (1 - decay) * g * g + decay * ms;
        w -= state.learning_rate * g / std::sqrt(ms + epsilon);
      });
}

/// The variance is not below 0, whatever rounding says.
Kernel prepare_centered_rmsprop_update(const Request& request) {
  return elementwise_update<3>(
      request, [decay = number(request, "decay_rate"), epsilon = number(request, "epsilon")](
                   double g, std::array<double, 3>& values, const CallState& state) {
        auto& [w, ms, mg] = values;
        ms = (1 - decay) * g * g + decay * ms;
        mg = (1 - decay) * g + decay * mg;
        w -= state.learning_rate * g / std::sqrt(std::max(0.0, ms - mg * mg) + epsilon);
      });
}

}  // namespace

std::span<const KernelEntry> optimizer() {
  static constexpr KernelEntry kKernels[] = {
      {"sgd_update", prepare_sgd_update},
      {"sparse_sgd_update", prepare_sparse_sgd_update},
      {"momentum_update", prepare_momentum_update},
      {"adam_update", prepare_adam_update},
      {"sparse_adam_update", prepare_sparse_adam_update},
      {"rmsprop_update", prepare_rmsprop_update},
      {"centered_rmsprop_update", prepare_centered_rmsprop_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
