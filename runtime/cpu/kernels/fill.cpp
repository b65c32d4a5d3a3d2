// fill: a constant. broadcast_to: one operand repeated to a larger shape.
#include "runtime/base/convert.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

template <typename T>
Kernel fill_with(const Request& request, T value) {
  Kernel kernel;
  kernel.launch = [value, threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    T* out = output<T>(buffers, 0);
    for_pieces(threads, n, kPiece,
               [&](int64_t first, int64_t end) { std::fill(out + first, out + end, value); });
  };
  return kernel;
}

struct First {
  FLOW_INLINE float operator()(float a, float) const { return a; }
};

}  // namespace

Kernel fill(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  const DType dtype = request.outputs[0].dtype;
  return visit_dtype(dtype, [&]<typename T>(T) { return fill_with(request, convert<T>(value)); });
}

Kernel broadcast_to(const Request& request) {
  return broadcast_kernel(request, [](const Broadcast::Block& block, const Buffers& buffers) {
    const float* from = input<float>(buffers, 0);
    apply_block(First{}, block, from, from, output<float>(buffers, 0));
  });
}

}  // namespace flow::cpu::fast
