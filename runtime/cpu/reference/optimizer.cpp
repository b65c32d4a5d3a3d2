// Reference: the optimizers' updates.
#include "runtime/cpu/operands.h"

namespace flow::cpu::reference {

/// w += a * g with a = -lr * scale, rounded to the job's float type.
Kernel sgd_update(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(),
                     scale = request.step.attributes.get<double>("scale")](const Buffers& buffers,
                                                                           const CallState& state) {
      const T *g = input<T>(buffers, 0), *w = input<T>(buffers, 1);
      const auto a = static_cast<T>(-state.learning_rate * scale);
      for (int64_t i = 0; i < n; ++i) output<T>(buffers, 0)[i] = w[i] + a * g[i];
    };
  });
  return kernel;
}

/// m = b*m + scale*g; w -= lr*m, with Nesterov w -= lr*(scale*g + b*m).
Kernel momentum_update(const Request& request) {
  const plan::Attributes& attributes = request.step.attributes;
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [n = request.outputs[0].shape.elements(),
                     scale = attributes.get<double>("scale"),
                     momentum = attributes.get<double>("momentum"),
                     nesterov = attributes.get<bool>("nesterov")](const Buffers& buffers,
                                                                  const CallState& state) {
      for (int64_t i = 0; i < n; ++i) {
        const double g = scale * static_cast<double>(input<T>(buffers, 0)[i]);
        const auto w = static_cast<double>(input<T>(buffers, 1)[i]);
        const double m = momentum * static_cast<double>(input<T>(buffers, 2)[i]) + g;
        const double direction = nesterov ? g + momentum * m : m;
        output<T>(buffers, 0)[i] = static_cast<T>(w - state.learning_rate * direction);
        output<T>(buffers, 1)[i] = static_cast<T>(m);
      }
    };
  });
  return kernel;
}

}  // namespace flow::cpu::reference
