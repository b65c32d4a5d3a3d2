// Reference: cumulative sums along an axis.
#include <type_traits>

#include "runtime/cpu/kernels/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/reference/around.h"

namespace flow::cpu::reference {
namespace {

/// Floats in double, integers in uint64, which wraps around. May be in place.
Kernel prepare_cumsum(const Request& request) {
  const Around x(request.inputs[0].shape, axis_of(request));
  const bool exclusive = request.step.attributes.get<bool>("exclusive");
  const bool reverse = request.step.attributes.get<bool>("reverse");
  Kernel kernel;
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t column = 0; column < x.outer * x.inner; ++column) {
        const int64_t first = column / x.inner * x.extent * x.inner + column % x.inner;
        Sum sum = 0;
        for (int64_t k = 0; k < x.extent; ++k) {
          const int64_t at = first + (reverse ? x.extent - 1 - k : k) * x.inner;
          const Sum before = sum;
          sum += static_cast<Sum>(input<T>(buffers, 0)[at]);
          output<T>(buffers, 0)[at] = static_cast<T>(exclusive ? before : sum);
        }
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> cumsum() {
  static constexpr KernelEntry kKernels[] = {{"cumsum", prepare_cumsum}};
  return kKernels;
}

}  // namespace flow::cpu::reference
