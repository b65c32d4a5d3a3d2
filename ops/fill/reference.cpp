// Reference: fill.
#include "runtime/base/convert.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_fill(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  Kernel kernel;
  visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [value, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                     const CallState&) {
      std::fill_n(output<T>(buffers, 0), n, convert<T>(value));
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> fill() {
  static constexpr KernelEntry kKernels[] = {{"fill", prepare_fill}};
  return kKernels;
}

}  // namespace flow::cpu::reference
