// Kernels of tril and triu, which keep the elements on one side of a diagonal and write zeros
// elsewhere.
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// Keeps those of n elements that are on the diagonal or on one side of it. y may alias x.
template <typename T>
__global__ void keep_side(const T* x, int64_t rows, int64_t columns, int64_t diagonal, bool lower,
                          T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t above = i % columns - i / columns % rows;
    y[i] = (lower ? above <= diagonal : above >= diagonal) ? x[i] : T{0};
  }
}

template <typename T>
Kernel triangle_with(const Request& request, bool lower) {
  const Shape& x = request.inputs[0].shape;
  return {[lower, rows = x[x.rank() - 2], columns = x[x.rank() - 1], n = x.elements(),
           diagonal = attribute<int64_t>(request, "diagonal")](const Buffers& buffers,
                                                               const LaunchState& state) {
    launch(state, "triangle", shape_for(n), keep_side<T>, input<T>(buffers, 0), rows, columns,
           diagonal, lower, output<T>(buffers, 0), n);
  }};
}

template <bool kLower>
Kernel triangle(const Request& request) {
  return visit_size(size_of(request.inputs[0].dtype),
                    [&]<typename T>(T) -> Kernel { return triangle_with<T>(request, kLower); });
}

}  // namespace

std::span<const KernelEntry> kernels::tril_triu() {
  static constexpr KernelEntry kKernels[] = {
      {"tril", triangle<true>},
      {"triu", triangle<false>},
  };
  return kKernels;
}

}  // namespace flow::cuda
