// Reference: the updates of LARS, LAMB and Adafactor, whose rates depend on norms.
#include <cmath>

#include "ops/optimizer/reference_update.h"
#include "runtime/base/optimizer_math.h"
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

Kernel prepare_adafactor_mean(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(), scale = GradientScale(request, 1),
                     decay = number(request, "beta2_decay")](const Buffers& buffers,
                                                             const CallState& state) {
      const double factor = scale.operator()<T>(buffers);
      const double share = share_of_squares(decay, state.step);
      for (int64_t i = 0; i < n; ++i) {
        const double square = double_at<T>(buffers, 0, i), mean = double_at<T>(buffers, 1, i);
        output<T>(buffers, 0)[i] = static_cast<T>(mean + share * (factor * factor * square - mean));
      }
    };
    kernel.launch = unless_skipped<T, 1>(request, std::move(kernel.launch));
  });
  return kernel;
}

Kernel prepare_adafactor_update(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.workspace = static_cast<size_t>(request.outputs[0].shape.elements()) * sizeof(double);
    kernel.launch =
        [n = request.outputs[0].shape.elements(), scale = GradientScale(request, 2),
         epsilon1 = number(request, "epsilon1"),
         limits = AdafactorLimits{number(request, "epsilon2"), number(request, "clip_threshold")},
         rate_scale = number(request, "rate_scale"),
         decay = number(request, "weight_decay")](const Buffers& buffers, const CallState& call) {
          const double factor = scale.operator()<T>(buffers);
          if (std::isnan(factor)) {
            std::copy_n(input<T>(buffers, 1), n, output<T>(buffers, 0));
            return;
          }
          double* updates = reinterpret_cast<double*>(buffers.workspace);
          for (int64_t i = 0; i < n; ++i)
            updates[i] = factor * double_at<T>(buffers, 0, i) /
                         std::max(std::sqrt(double_at<T>(buffers, 2, i)), epsilon1);
          const auto size_of = [n](double sum) { return std::sqrt(sum / static_cast<double>(n)); };
          const CallState state = call.at_rate(rate_scale);
          const double rate =
              limits.rate(size_of(squares(input<T>(buffers, 1), n)), size_of(squares(updates, n)),
                          state.learning_rate, state.step);
          for (int64_t i = 0; i < n; ++i) {
            const double w = double_at<T>(buffers, 1, i);
            output<T>(buffers, 0)[i] =
                static_cast<T>(w - rate * updates[i] - state.learning_rate * decay * w);
          }
        };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> layerwise_updates() {
  static constexpr KernelEntry kKernels[] = {
      {"lars_update", prepare_lars_update},
      {"lamb_update", prepare_lamb_update},
      {"adafactor_mean", prepare_adafactor_mean},
      {"adafactor_update", prepare_adafactor_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
