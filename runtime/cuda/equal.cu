// equal: two floats of one dtype, two integers of any dtypes, or two bools -> bool.
#include "runtime/cuda/integers.cuh"
#include "runtime/cuda/map.cuh"
#include "runtime/cuda/operands.h"

namespace flow::cuda {
namespace {

struct Equal {
  template <typename T>
  __device__ bool operator()(T a, T b) const {
    return a == b;
  }
};

/// out[i] = a[loops(i)] == b[loops(i)], i < n
__global__ void equal_integers(Loops<2> loops, Integers a, Integers b, bool* out, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const Offsets<2> at = loops.at(i);
    out[i] = a[at.of[0]] == b[at.of[1]];
  }
}

template <typename T>
Kernel equal_of(const Loops<2>& loops, int64_t n) {
  return {[=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "equal", shape_for(n), map_pairs<T, bool, Equal>, loops,
           input<T>(buffers, 0), input<T>(buffers, 1), output<bool>(buffers, 0), n, Equal{});
  }};
}

}  // namespace

Kernel equal(const Request& request) {
  const DType a = request.inputs[0].dtype, b = request.inputs[1].dtype;
  const Loops<2> loops =
      broadcast_loops(request.inputs[0].shape, request.inputs[1].shape, request.outputs[0].shape);
  const int64_t n = result_elements(request);
  if (a == DType::kBool) return equal_of<bool>(loops, n);
  if (is_float(a))
    return visit_float(a, [&]<typename T>(T) -> Kernel { return equal_of<T>(loops, n); });
  return {[=](const Buffers& buffers, const LaunchState& state) {
    launch(state.driver, state.stream, "equal", shape_for(n), equal_integers, loops,
           Integers{buffers.inputs[0], a}, Integers{buffers.inputs[1], b}, output<bool>(buffers, 0),
           n);
  }};
}

}  // namespace flow::cuda
