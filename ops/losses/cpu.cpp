// CPU kernels of elementwise losses and their gradients, and of connectionist temporal
// classification, whose samples are computed on several threads.
#include "ops/binary/cpu_loops.h"
#include "ops/losses/cpu_ctc.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::fast {
namespace {

Kernel prepare_ctc(const Request& request) { return ctc_kernel<float>(request, request.threads); }

Kernel prepare_ctc_grad(const Request& request) {
  return ctc_grad_kernel<float>(request, request.threads);
}

}  // namespace

std::span<const KernelEntry> losses() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_LOSS(op, Function, ...)                       \
  {#op, pair_kernel<functions::Function>, Layouts::kSame}, \
      {#op "_grad", triple_kernel<functions::Function##Gradient>, Layouts::kSame},
#include "ops/binary/binary.def"
      {"ctc", prepare_ctc},
      {"ctc_grad", prepare_ctc_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
