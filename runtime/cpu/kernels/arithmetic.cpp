// Arithmetic of numbers that broadcast, and scale.
#include "runtime/cpu/kernels/binary_loops.h"
#include "runtime/cpu/kernels/families.h"
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
      {"add", number_pair_kernel<functions::Add>, Layouts::kSame},
      {"subtract", number_pair_kernel<functions::Subtract>, Layouts::kSame},
      {"multiply", number_pair_kernel<functions::Multiply>, Layouts::kSame},
      {"divide", pair_kernel<functions::Divide>, Layouts::kSame},
      {"pow", number_pair_kernel<functions::Pow>, Layouts::kSame},
      {"pow_grad_base", triple_kernel<functions::PowGradientBase>, Layouts::kSame},
      {"pow_grad_exponent", triple_kernel<functions::PowGradientExponent>, Layouts::kSame},
      {"maximum", number_pair_kernel<functions::Maximum>, Layouts::kSame},
      {"minimum", number_pair_kernel<functions::Minimum>, Layouts::kSame},
      {"scale", prepare_scale, Layouts::kSame},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
