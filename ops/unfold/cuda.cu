// Kernels of unfold, which turns windows over images into columns, and of fold, which sums columns
// into images. Sums are computed in double, one place after another, as on the CPU.
#include "ops/core/cuda_launch.cuh"
#include "runtime/base/index_maps.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// Computes y, which has n elements in columns.
template <typename T>
__global__ void unfold_images(UnfoldedImages of, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = of.unfolded(x, i);
}

/// Computes y, which has n pixels.
template <typename T>
__global__ void fold_images(UnfoldedImages of, const T* x, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = static_cast<T>(of.folded(x, i));
}

Kernel prepare_unfold(const Request& request) {
  const UnfoldedImages of = unfolded_images(request.step.attributes, request.inputs[0].shape);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[of, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      launch(state, "unfold", shape_for(n), unfold_images<T>, of, input<T>(buffers, 0),
             output<T>(buffers, 0), n);
    }};
  });
}

Kernel prepare_fold(const Request& request) {
  const UnfoldedImages of = unfolded_images(request.step.attributes, request.outputs[0].shape);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[of, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      launch(state, "fold", shape_for(n), fold_images<T>, of, input<T>(buffers, 0),
             output<T>(buffers, 0), n);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::unfold() {
  static constexpr KernelEntry kKernels[] = {
      {"unfold", prepare_unfold},
      {"fold", prepare_fold},
  };
  return kKernels;
}

}  // namespace flow::cuda
