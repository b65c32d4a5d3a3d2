// Arithmetic of numbers that broadcast, and scale.
#include "ops/arithmetic/cpu_loops.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

Kernel prepare_scale(const Request& request) {
  Kernel kernel;
  kernel.launch = [factor = static_cast<float>(request.step.attributes.get<double>("factor")),
                   threads = request.threads, n = request.outputs[0].shape.elements()](
                      const Buffers& buffers, const CallState&) {
    for_pieces(threads, n, kPiece, [&](int64_t first, int64_t end) {
      scale_to(input<float>(buffers, 0) + first, factor, output<float>(buffers, 0) + first,
               end - first);
    });
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> arithmetic() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_ARITHMETIC(op, Function, ...) \
  {#op, number_pair_kernel<functions::Function>, Layouts::kSame},
#define FLOW_FLOAT_ARITHMETIC(op, Function, ...) \
  {#op, pair_kernel<functions::Function>, Layouts::kSame},
#define FLOW_ARITHMETIC_GRAD(op, Function, ...) \
  {#op, triple_kernel<functions::Function>, Layouts::kSame},
#include "ops/arithmetic/binary.def"
      {"scale", prepare_scale, Layouts::kSame},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
