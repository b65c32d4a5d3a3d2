// Reference: the triangles of matrices.
#include <cstring>

#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

template <bool kLower>
Kernel triangle(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
  const int64_t diagonal = request.step.attributes.get<int64_t>("diagonal");
  Kernel kernel;
  kernel.launch = [=, n = x.elements(), element = size_of(request.inputs[0].dtype)](
                      const Buffers& buffers, const CallState&) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t above = i % columns - i / columns % rows;
      const bool kept = kLower ? above <= diagonal : above >= diagonal;
      const size_t at = static_cast<size_t>(i) * element;
      if (kept)
        std::memmove(buffers.outputs[0] + at, buffers.inputs[0] + at, element);
      else
        std::memset(buffers.outputs[0] + at, 0, element);
    }
  };
  return kernel;
}

}  // namespace

std::span<const KernelEntry> tril_triu() {
  static constexpr KernelEntry kKernels[] = {
      {"tril", triangle<true>},
      {"triu", triangle<false>},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
