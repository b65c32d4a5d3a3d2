// Reference: cast and copy.
#include "ops/core/reference_loops.h"
#include "runtime/base/element_types.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_cast(const Request& request) {
  Kernel kernel;
  visit_dtype(request.inputs[0].dtype, [&]<typename From>(From) {
    visit_dtype(request.outputs[0].dtype, [&]<typename To>(To) {
      kernel.launch = [n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                const CallState&) {
        for (int64_t i = 0; i < n; ++i)
          output<To>(buffers, 0)[i] = convert<To>(input<From>(buffers, 0)[i]);
      };
    });
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> cast() {
  static constexpr KernelEntry kKernels[] = {
      {"cast", prepare_cast},
      {"copy", moving_all},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
