// CUDA kernels that regularize, scale and clip gradients before updates, and that move the loss
// scale.
#include <cmath>

#include "ops/optimizer/cuda_piece_sums.h"
#include "ops/optimizer/optimizer_math.h"
#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// Computes g + l1*sign(w) + l2*w.
template <typename T>
struct Regularize {
  T l1, l2;
  __device__ T operator()(T g, T w) const {
    const T sign = static_cast<T>(w > 0) - static_cast<T>(w < 0);
    return g + (l1 * sign + l2 * w);
  }
};

constexpr int kMostGradients = 160;        // per launch: parameters are limited to 4096 bytes
constexpr int64_t kTerms = 32 * kThreads;  // elements per block
constexpr size_t kShared = kThreads / kWarp * sizeof(double);

/// Gradients of one launch. `end` is the first block after those of a gradient, and `place` is
/// where the sum of its first block is stored.
struct Gradients {
  const std::byte* data[kMostGradients];
  int64_t elements[kMostGradients];
  int32_t end[kMostGradients], place[kMostGradients];
};

/// Stores the sum of squares of the elements of a gradient that this block handles.
template <typename T>
__global__ void sum_squares(Gradients gradients, double* sums) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  int index = 0;
  while (block >= gradients.end[index]) ++index;
  const int32_t own = block - (index ? gradients.end[index - 1] : 0);
  const int64_t first = own * kTerms;
  const int64_t rest = gradients.elements[index] - first;
  const int64_t n = rest < kTerms ? rest : kTerms;
  const T* x = reinterpret_cast<const T*>(gradients.data[index]) + first;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  sum = over_block(sum, Sum{});
  if (threadIdx.x == 0) sums[gradients.place[index] + own] = sum;
}

/// Computes the factor that clips gradients by their sum of squares. The factor also undoes the
/// loss scale, if there is one. Stores the norm unless `norm` is null.
template <typename T>
__global__ void factor_of(const double* sums, int64_t count, NormClipping clipping,
                          const T* loss_scale, T* factor, T* norm) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = over_block(sum, Sum{});
  if (threadIdx.x > 0) return;
  const double scale = loss_scale ? static_cast<double>(*loss_scale) : 1;
  const double found = clipping.norm(sum, scale);
  *factor = static_cast<T>(loss_scale ? clipping.unscaling(sum, scale) : clipping.factor(found));
  if (norm) *norm = static_cast<T>(found);
}

/// Moves the loss scale. Runs in one thread.
template <typename T>
__global__ void move_scale(LossScaleRule rule, const T* factor, const T* loss_scale,
                           const T* finite_steps, T* next_loss_scale, T* next_finite_steps) {
  T scale = *loss_scale, steps = *finite_steps;
  flow::move_loss_scale(rule, static_cast<double>(*factor), scale, steps);
  *next_loss_scale = scale;
  *next_finite_steps = steps;
}

int64_t blocks_of(int64_t elements) { return ceil_div(elements, kTerms); }

/// Calls run(gradients, blocks) for consecutive groups of up to kMostGradients gradients. Skips
/// groups without elements on this rank.
template <typename Run>
void for_gradients(const std::vector<int64_t>& elements, const PieceSums& sums,
                   std::span<std::byte* const> data, Run run) {
  for (size_t first = 0; first < elements.size(); first += kMostGradients) {
    const size_t end = std::min(elements.size(), first + kMostGradients);
    Gradients gradients{};
    int64_t blocks = 0;
    for (size_t i = first; i < end; ++i) {
      gradients.data[i - first] = data[i];
      gradients.elements[i - first] = elements[i];
      blocks += blocks_of(elements[i]);
      gradients.end[i - first] = static_cast<int32_t>(blocks);
      gradients.place[i - first] = static_cast<int32_t>(sums.place(i));
    }
    if (blocks > 0) run(gradients, blocks);
  }
}

/// Returns the kernel of the factor of the gradients, which are the operands starting with `first`.
/// An operand before them is the loss scale.
Kernel factor_kernel(const Request& request, size_t first) {
  const std::span<const TensorDesc> descs = std::span(request.inputs).subspan(first);
  const PieceSums pieces(descs, kTerms, request.rank, true);
  std::vector<int64_t> elements;
  for (const TensorDesc& desc : descs) elements.push_back(desc.shape.elements());
  const auto clipping = NormClipping::of(request.step.attributes);
  const bool has_norm = request.outputs.size() > 1 && request.outputs[1].used;
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto sum = [=](const Buffers& buffers, const LaunchState& state) {
      for_gradients(elements, pieces, buffers.inputs.subspan(first),
                    [&](const Gradients& gradients, int64_t blocks) {
                      const LaunchShape shape{{static_cast<unsigned>(blocks)}, {kThreads}, kShared};
                      launch(state.driver, state.stream, "sum_squares", shape, sum_squares<T>,
                             gradients, reinterpret_cast<double*>(buffers.workspace));
                    });
    };
    const auto find_factor = [=](const Buffers& buffers, const LaunchState& state) {
      pieces.put_in_order(buffers.workspace, sizeof(double), state);
      launch(state.driver, state.stream, "factor", {{1}, {kThreads}, kShared}, factor_of<T>,
             reinterpret_cast<const double*>(buffers.workspace), pieces.count(), clipping,
             first > 0 ? input<T>(buffers, 0) : nullptr, output<T>(buffers, 0),
             has_norm ? output<T>(buffers, 1) : nullptr);
    };
    return around_gather<Kernel>(pieces, sizeof(double), sum, find_factor);
  });
}

Kernel prepare_regularize(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const Regularize<T> rule{static_cast<T>(attribute<double>(request, "l1")),
                             static_cast<T>(attribute<double>(request, "l2"))};
    return {map_pairs_launch<T>("regularize", request, rule)};
  });
}

Kernel prepare_clip_factor(const Request& request) { return factor_kernel(request, 0); }

Kernel prepare_unscale_factor(const Request& request) { return factor_kernel(request, 1); }

Kernel prepare_move_loss_scale(const Request& request) {
  const auto rule = LossScaleRule::of(request.step.attributes);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[rule](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "move_loss_scale", {{1}, {1}}, move_scale<T>, rule,
             input<T>(buffers, 0), input<T>(buffers, 1), input<T>(buffers, 2),
             output<T>(buffers, 0), output<T>(buffers, 1));
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::gradients() {
  static constexpr KernelEntry kKernels[] = {
      {"regularize", prepare_regularize},
      {"clip_factor", prepare_clip_factor},
      {"unscale_factor", prepare_unscale_factor},
      {"move_loss_scale", prepare_move_loss_scale},
  };
  return kKernels;
}

}  // namespace flow::cuda
