// Reference: Adafactor, as its formulas stand.
#include <cmath>

#include "ops/optimizer/reference_update.h"
#include "runtime/base/adafactor_rates.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

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

std::span<const KernelEntry> adafactor() {
  static constexpr KernelEntry kKernels[] = {
      {"adafactor_mean", prepare_adafactor_mean},
      {"adafactor_update", prepare_adafactor_update},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
