// Reference kernels that mark the indices of bags, and compute the sums and maxima of the selected
// rows.
#include "ops/embedding_bag/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// Returns the fast kernel, because a reference kernel would contain the same loop.
Kernel prepare_bag_indices(const Request& request) {
  return find_kernel(fast::embedding_bag(), "bag_indices")->prepare(request);
}

/// Calls f(element, i, value) for each element of the result and each index i of its bag that
/// counts, in order.
template <typename T, typename F>
void for_elements(const BagSizes& sizes, DType dtype, const Buffers& buffers, F f) {
  for (int64_t at = 0; at < sizes.bags * sizes.units; ++at)
    for (int64_t i = 0; i < sizes.count; ++i) {
      const int64_t row = integer_at(dtype, buffers.inputs[1], at / sizes.units * sizes.count + i);
      if (row >= 0 && row < sizes.rows)
        f(at, i, input<T>(buffers, 0)[row * sizes.units + at % sizes.units]);
    }
}

Kernel prepare_bag_sum(const Request& request) {
  Kernel kernel;
  visit_float(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [sizes = BagSizes(request.inputs[0].shape, request.inputs[1].shape),
                     dtype = request.inputs[1].dtype, weighted = request.inputs.size() > 2](
                        const Buffers& buffers, const CallState&) {
      T* sums = output<T>(buffers, 0);
      std::fill_n(sums, sizes.bags * sizes.units, T{0});
      for_elements<T>(sizes, dtype, buffers, [&](int64_t at, int64_t i, T value) {
        const int64_t place = at / sizes.units * sizes.count + i;
        sums[at] += (weighted ? input<T>(buffers, 2)[place] : T{1}) * value;
      });
    };
  });
  return kernel;
}

Kernel prepare_bag_max(const Request& request) {
  Kernel kernel;
  visit_float(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [sizes = BagSizes(request.inputs[0].shape, request.inputs[1].shape),
                     dtype = request.inputs[1].dtype,
                     wants_places = request.outputs.size() > 1 && request.outputs[1].used](
                        const Buffers& buffers, const CallState&) {
      T* largest = output<T>(buffers, 0);
      int64_t seen = -1;  // the element whose running maximum is valid
      std::fill_n(largest, sizes.bags * sizes.units, T{0});
      if (wants_places) std::fill_n(output<int64_t>(buffers, 1), sizes.bags * sizes.units, -1);
      for_elements<T>(sizes, dtype, buffers, [&](int64_t at, int64_t i, T value) {
        if (seen == at && !exceeds(value, largest[at])) return;
        seen = at;
        largest[at] = value;
        if (wants_places) output<int64_t>(buffers, 1)[at] = i;
      });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> embedding_bag() {
  static constexpr KernelEntry kKernels[] = {
      {"bag_indices", prepare_bag_indices},
      {"bag_sum", prepare_bag_sum},
      {"bag_max", prepare_bag_max},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
