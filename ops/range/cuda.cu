// evenly_spaced: numbers at equal distances.
#include "runtime/base/convert.h"
#include "runtime/base/spaced.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// y[i] = number i of n
template <typename T>
__global__ void space_evenly(EvenlySpaced numbers, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = convert<T>(numbers.at(i, n));
}

Kernel prepare_evenly_spaced(const Request& request) {
  const int64_t n = result_elements(request);
  const EvenlySpaced numbers(attribute<double>(request, "first"),
                             attribute<double>(request, "last"), n);
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "evenly_spaced", shape_for(n), space_evenly<T>, numbers,
             output<T>(buffers, 0), n);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::range() {
  static constexpr KernelEntry kKernels[] = {
      {"evenly_spaced", prepare_evenly_spaced},
  };
  return kKernels;
}

}  // namespace flow::cuda
