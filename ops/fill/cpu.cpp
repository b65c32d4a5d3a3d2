// fill: a constant.
#include "runtime/base/convert.h"
#include "runtime/cpu/backend/families.h"
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

Kernel prepare_fill(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  const DType dtype = request.outputs[0].dtype;
  return visit_dtype(dtype, [&]<typename T>(T) { return fill_with(request, convert<T>(value)); });
}

}  // namespace

std::span<const KernelEntry> fill() {
  static constexpr KernelEntry kKernels[] = {{"fill", prepare_fill, Layouts::kSame}};
  return kKernels;
}

}  // namespace flow::cpu::fast
