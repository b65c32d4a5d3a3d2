// slice: a part of an array. slice_grad: the gradient in its place, zero around it.
#include "runtime/base/array.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/strided_copy.cuh"

namespace flow::cuda {
namespace {

/// Loops over what slice's attributes take of `x`, then over the part in C order.
ArrayPart sliced_part(const Request& request, const Shape& x, bool into_x) {
  const Shape counts(attribute<std::vector<int64_t>>(request, "counts"));
  ArrayPart sliced{{}, 0};
  for (int axis = 0; axis < counts.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t stride = stride_of(x, axis), own = stride_of(counts, axis);
    const int64_t step = attribute<std::vector<int64_t>>(request, "steps")[i] * stride;
    sliced.begin += attribute<std::vector<int64_t>>(request, "starts")[i] * stride;
    sliced.loops.add(counts[axis], into_x ? std::array{own, step} : std::array{step, own});
  }
  return sliced;
}

Kernel prepare_slice(const Request& request) {
  const ArrayPart sliced = sliced_part(request, request.inputs[0].shape, false);
  return visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) -> Kernel {
    return {[sliced](const Buffers& buffers, const LaunchState& state) {
      launch_copy(state, "slice", sliced.loops, input<T>(buffers, 0) + sliced.begin,
                  output<T>(buffers, 0));
    }};
  });
}

Kernel prepare_slice_grad(const Request& request) {
  const TensorDesc& dx = request.outputs[0];
  const ArrayPart sliced = sliced_part(request, dx.shape, true);
  const size_t bytes = bytes_of(dx.shape, dx.dtype);
  return visit_float(dx.dtype, [&]<typename T>(T) -> Kernel {
    return {[sliced, bytes](const Buffers& buffers, const LaunchState& state) {
      state.driver.clear(buffers.outputs[0], bytes, state.stream);
      launch_copy(state, "slice_grad", sliced.loops, input<T>(buffers, 0),
                  output<T>(buffers, 0) + sliced.begin);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::slice() {
  static constexpr KernelEntry kKernels[] = {
      {"slice", prepare_slice},
      {"slice_grad", prepare_slice_grad},
  };
  return kKernels;
}

}  // namespace flow::cuda
