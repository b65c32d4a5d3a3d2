// Connectionist temporal classification: samples on several threads.
#include "ops/ctc/cpu.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

Kernel prepare_ctc(const Request& request) { return ctc_kernel<float>(request, request.threads); }

Kernel prepare_ctc_grad(const Request& request) {
  return ctc_grad_kernel<float>(request, request.threads);
}

}  // namespace

std::span<const KernelEntry> ctc() {
  static constexpr KernelEntry kKernels[] = {
      {"ctc", prepare_ctc},
      {"ctc_grad", prepare_ctc_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
