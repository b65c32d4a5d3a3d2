// The kernel of transpose, which reorders axes.
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/broadcast.h"
#include "runtime/cpu/loops/strided_copy.h"

namespace flow::cpu::fast {
namespace {

using Integers = std::vector<int64_t>;

Kernel prepare_transpose(const Request& request) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  const Integers strides = strides_of(x);
  Integers from;
  for (const int64_t axis : integers(request, "perm"))
    from.push_back(strides[static_cast<size_t>(axis)]);
  return copying(request, axes_of(y.shape, from, strides_of(y)), 0);
}

}  // namespace

std::span<const KernelEntry> transpose() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "transpose",
       .prepare = prepare_transpose,
       .layouts = Layouts::kEach,
       .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
