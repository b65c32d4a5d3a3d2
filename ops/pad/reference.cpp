// Reference kernels of pad and its gradient.
#include "ops/core/reference_loops.h"
#include "ops/pad/problem.h"
#include "runtime/base/element_types.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_pad(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  Kernel kernel;
  visit_dtype(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [padding = padding_of(request, request.inputs[0].shape), value,
                     n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                              const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t from = padding.source(i);
        output<T>(buffers, 0)[i] = from < 0 ? convert<T>(value) : input<T>(buffers, 0)[from];
      }
    };
  });
  return kernel;
}

Kernel prepare_pad_grad(const Request& request) {
  return scattering(request, [padding = padding_of(request, request.outputs[0].shape)](int64_t i) {
    return padding.source(i);
  });
}

}  // namespace

std::span<const KernelEntry> pad() {
  static constexpr KernelEntry kKernels[] = {
      {"pad", prepare_pad},
      {"pad_grad", prepare_pad_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
