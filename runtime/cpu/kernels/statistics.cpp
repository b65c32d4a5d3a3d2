// move_statistics: moving averages take in the statistics of one batch.
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {

Kernel move_statistics(const Request& request) {
  const double momentum = request.step.attributes.get<double>("momentum");
  const double unbias = request.step.attributes.get<double>("unbias");
  Kernel kernel;
  kernel.launch = [=, n = request.inputs[0].shape.elements()](const Buffers& b, const CallState&) {
    const auto moved = [momentum](float moving, double batch) {
      return static_cast<float>(momentum * static_cast<double>(moving) + (1 - momentum) * batch);
    };
    for (int64_t c = 0; c < n; ++c) {
      const float mean = moved(input<float>(b, 2)[c], static_cast<double>(input<float>(b, 0)[c]));
      const float variance =
          moved(input<float>(b, 3)[c], unbias * static_cast<double>(input<float>(b, 1)[c]));
      output<float>(b, 0)[c] = mean;
      output<float>(b, 1)[c] = variance;
    }
  };
  return kernel;
}

}  // namespace flow::cpu::fast
