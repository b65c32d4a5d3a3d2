// Reference: connectionist temporal classification. Its kernels compute in double, whatever they
// read.
#include "ops/ctc/cpu.h"

#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

Kernel prepare_ctc(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[1].dtype, [&]<typename T>(T) { kernel = ctc_kernel<T>(request, 1); });
  return kernel;
}

Kernel prepare_ctc_grad(const Request& request) {
  Kernel kernel;
  visit_float(request.inputs[1].dtype,
              [&]<typename T>(T) { kernel = ctc_grad_kernel<T>(request, 1); });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> ctc() {
  static constexpr KernelEntry kKernels[] = {
      {"ctc", prepare_ctc},
      {"ctc_grad", prepare_ctc_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
