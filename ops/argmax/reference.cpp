// Reference kernels of argmax and argmin: the index of an extreme along an axis.
#include <functional>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// Finds the first element that no other element precedes; a NaN precedes any number.
template <typename Precedes>
Kernel places(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int axis = axis_of(request);
  const int64_t n = x[axis], inner = x.elements(axis + 1, x.rank());
  const int64_t count = request.outputs[0].shape.elements();
  Kernel kernel;
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t i = 0; i < count; ++i) {
        const T* first = input<T>(buffers, 0) + i / inner * n * inner + i % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < n && first[best * inner] == first[best * inner]; ++k) {
          const T next = first[k * inner];
          if (next != next || Precedes()(next, first[best * inner])) best = k;
        }
        output<int64_t>(buffers, 0)[i] = best;
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> argmax() {
  static constexpr KernelEntry kKernels[] = {
      {"argmax", places<std::greater<>>},
      {"argmin", places<std::less<>>},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
