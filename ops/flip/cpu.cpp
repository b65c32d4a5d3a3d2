// flip: the elements in reverse order along axes.
#include "ops/core/cpu_strided_kernel.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"

namespace flow::cpu::fast {
namespace {

/// The operand is read from its last element on along these axes.
Kernel prepare_flip(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  std::vector<int64_t> from = strides_of(x);
  int64_t first = 0;
  for (const int64_t axis : integers(request, "axes")) {
    int64_t& stride = from[static_cast<size_t>(axis)];
    first += (x.shape[static_cast<int>(axis)] - 1) * stride;
    stride = -stride;
  }
  return copying(request, axes_of(y.shape, from, strides_of(y)), first);
}

}  // namespace

std::span<const KernelEntry> flip() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "flip", .prepare = prepare_flip, .layouts = Layouts::kSame, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
