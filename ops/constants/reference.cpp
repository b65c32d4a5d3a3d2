// Reference: fill and evenly spaced numbers.
#include "runtime/base/element_types.h"
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

/// A mean of both ends: each is exact.
Kernel prepare_evenly_spaced(const Request& request) {
  const double first = number(request, "first"), last = number(request, "last");
  Kernel kernel;
  visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                 const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const double sum = first * static_cast<double>(n - 1 - i) + last * static_cast<double>(i);
        output<T>(buffers, 0)[i] = convert<T>(n == 1 ? first : sum / static_cast<double>(n - 1));
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> constants() {
  static constexpr KernelEntry kKernels[] = {
      {"fill", prepare_fill},
      {"evenly_spaced", prepare_evenly_spaced},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
