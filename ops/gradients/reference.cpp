// Reference kernels that regularize, scale and clip gradients before updates, and that move the
// loss scale.
#include <cmath>

#include "ops/optimizer/optimizer_math.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// Returns the sum of squares of n elements.
template <typename T>
double squares(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

/// The sum of squares of all gradients, which are the operands starting with `first`.
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

/// Computes g + l1*sign(w) + l2*w.
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

/// Prepares the factor and the norm of the gradients, which are the operands starting with `first`.
/// An operand before them is the loss scale, which the factor undoes.
Kernel prepare_factor(const Request& request, size_t first) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [gradients = SquaresOfGradients(request, first), first,
                     clipping = NormClipping::of(request.step.attributes),
                     has_norm = request.outputs.size() > 1 && request.outputs[1].used](
                        const Buffers& buffers, const CallState&) {
      const double squares = gradients.template sum<T>(buffers);
      const double loss_scale = first > 0 ? double_at<T>(buffers, 0, 0) : 1;
      const double norm = clipping.norm(squares, loss_scale);
      *output<T>(buffers, 0) = static_cast<T>(first > 0 ? clipping.unscaling(squares, loss_scale)
                                                        : clipping.factor(norm));
      if (has_norm) *output<T>(buffers, 1) = static_cast<T>(norm);
    };
  });
  return kernel;
}

Kernel prepare_clip_factor(const Request& request) { return prepare_factor(request, 0); }

Kernel prepare_unscale_factor(const Request& request) { return prepare_factor(request, 1); }

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
