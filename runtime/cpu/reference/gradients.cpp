// Reference: what is done to gradients before the updates, and the scale of the loss.
#include <cmath>

#include "runtime/base/loss_scale.h"
#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/reference/update.h"

namespace flow::cpu::reference {
namespace {

/// The sum of squares of all gradients: the operands from `first` on.
class SquaresOfGradients {
 public:
  SquaresOfGradients(const Request& request, size_t first) : first_(first) {
    for (const TensorDesc& desc : request.inputs) elements_.push_back(desc.shape.elements());
  }

  template <typename T>
  double sum(const Buffers& buffers) const {
    double sum = 0;
    for (size_t i = first_; i < elements_.size(); ++i)
      sum += squares(input<T>(buffers, i), elements_[i]);
    return sum;
  }

 private:
  size_t first_;
  std::vector<int64_t> elements_;
};

/// g + l1*sign(w) + l2*w
Kernel prepare_regularize(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(), l1 = number(request, "l1"),
                     l2 = number(request, "l2")](const Buffers& buffers, const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const auto g = static_cast<double>(input<T>(buffers, 0)[i]);
        const auto w = static_cast<double>(input<T>(buffers, 1)[i]);
        const double sign = w > 0 ? 1 : w < 0 ? -1 : 0;
        output<T>(buffers, 0)[i] = static_cast<T>(g + l1 * sign + l2 * w);
      }
    };
  });
  return kernel;
}

/// min(1, limit / norm)
Kernel prepare_clip_factor(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [gradients = SquaresOfGradients(request, 0), scale = number(request, "scale"),
                     limit = number(request, "clip_norm")](const Buffers& buffers,
                                                           const CallState&) {
      const double norm = std::abs(scale) * std::sqrt(gradients.template sum<T>(buffers));
      *output<T>(buffers, 0) = norm > limit ? static_cast<T>(limit / norm) : T{1};
    };
  });
  return kernel;
}

Kernel prepare_unscale_factor(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [gradients = SquaresOfGradients(request, 1), scale = number(request, "scale"),
                     limit = number(request, "clip_norm")](const Buffers& buffers,
                                                           const CallState&) {
      const auto loss_scale = static_cast<double>(*input<T>(buffers, 0));
      *output<T>(buffers, 0) = static_cast<T>(
          flow::unscale_factor(gradients.template sum<T>(buffers), scale, loss_scale, limit));
    };
  });
  return kernel;
}

Kernel prepare_move_loss_scale(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rule = LossScaleRule::of(request.step.attributes)](const Buffers& buffers,
                                                                        const CallState&) {
      T loss_scale = *input<T>(buffers, 1), finite_steps = *input<T>(buffers, 2);
      flow::move_loss_scale(rule, static_cast<double>(*input<T>(buffers, 0)), loss_scale,
                            finite_steps);
      *output<T>(buffers, 0) = loss_scale;
      *output<T>(buffers, 1) = finite_steps;
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> gradients() {
  static constexpr KernelEntry kKernels[] = {
      {"regularize", prepare_regularize},
      {"clip_factor", prepare_clip_factor},
      {"unscale_factor", prepare_unscale_factor},
      {"move_loss_scale", prepare_move_loss_scale},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
