// Reference: the optimizers' updates, as their formulas stand.
#include <array>
#include <cmath>

#include "runtime/base/loss_scale.h"
#include "runtime/cpu/kernels/update.h"

namespace flow::cpu::reference {
namespace {

/// A Launch that leaves the variable and its slots as they are where the factor is NaN.
template <typename T, size_t kMoved>
Launch unless_skipped(const Request& request, Launch update) {
  return [update = std::move(update), n = request.outputs[0].shape.elements(),
          scale = GradientScale(request, kMoved)](const Buffers& buffers, const CallState& state) {
    if (!std::isnan(scale.template operator()<T>(buffers))) return update(buffers, state);
    for (size_t k = 0; k < kMoved; ++k)
      std::copy_n(input<T>(buffers, 1 + k), n, output<T>(buffers, k));
  };
}

/// A Kernel that calls move(g, values, state) for each element: `values` are the variable and its
/// slots, and become what follows them; `state` has the variable's learning rate.
template <size_t kMoved, typename Move>
Kernel elementwise_update(const Request& request, Move move) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, n = request.outputs[0].shape.elements(),
                     scale = GradientScale(request, kMoved),
                     rate_scale = number(request, "rate_scale")](const Buffers& buffers,
                                                                 const CallState& call) {
      const double factor = scale.operator()<T>(buffers);
      const CallState state = call.at_rate(rate_scale);
      for (int64_t i = 0; i < n; ++i) {
        std::array<double, kMoved> values;
        for (size_t k = 0; k < kMoved; ++k)
          values[k] = static_cast<double>(input<T>(buffers, 1 + k)[i]);
        move(factor * static_cast<double>(input<T>(buffers, 0)[i]), values, state);
        for (size_t k = 0; k < kMoved; ++k) output<T>(buffers, k)[i] = static_cast<T>(values[k]);
      }
    };
    kernel.launch = unless_skipped<T, kMoved>(request, std::move(kernel.launch));
  });
  return kernel;
}

/// The sum of squares of an operand.
template <typename T>
double squares(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

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

}  // namespace

/// w += a * g with a = -lr * scale, rounded to the job's float type.
Kernel sgd_update(const Request& request) {
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

/// m = b*m + g; w -= lr*m + lr*wd*w, with Nesterov lr*(g + b*m) for lr*m.
Kernel momentum_update(const Request& request) {
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

Kernel adam_update(const Request& request) {
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

Kernel rmsprop_update(const Request& request) {
  return elementwise_update<2>(
      request, [decay = number(request, "decay_rate"), epsilon = number(request, "epsilon")](
                   double g, std::array<double, 2>& values, const CallState& state) {
        auto& [w, ms] = values;
        ms = (1 - decay) * g * g + decay * ms;
        w -= state.learning_rate * g / std::sqrt(ms + epsilon);
      });
}

/// The variance is not below 0, whatever rounding says.
Kernel centered_rmsprop_update(const Request& request) {
  return elementwise_update<3>(
      request, [decay = number(request, "decay_rate"), epsilon = number(request, "epsilon")](
                   double g, std::array<double, 3>& values, const CallState& state) {
        auto& [w, ms, mg] = values;
        ms = (1 - decay) * g * g + decay * ms;
        mg = (1 - decay) * g + decay * mg;
        w -= state.learning_rate * g / std::sqrt(std::max(0.0, ms - mg * mg) + epsilon);
      });
}

Kernel lars_update(const Request& request) {
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

Kernel lamb_update(const Request& request) {
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

/// g + l1*sign(w) + l2*w
Kernel regularize(const Request& request) {
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
Kernel clip_factor(const Request& request) {
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

Kernel unscale_factor(const Request& request) {
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

Kernel move_loss_scale(const Request& request) {
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

}  // namespace flow::cpu::reference
