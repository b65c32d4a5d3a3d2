// bias_add: y = x + bias along one axis. bias_add_grad: the sum of dy over all other axes.
#include "runtime/base/element_types.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"
#include "runtime/cuda/loops/reduction.h"

namespace flow::cuda {
namespace {

template <typename T>
struct AddBias {
  __device__ T operator()(T x, T bias) const {
    return convert<T>(convert<Wide<T>>(x) + convert<Wide<T>>(bias));
  }
};

Kernel prepare_bias_add(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  Loops<2> loops;
  for (int i = 0; i < x.rank(); ++i) loops.add(x[i], {stride_of(x, i), i == axis ? 1 : 0});
  return visit_any_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[loops, n = x.elements()](const Buffers& buffers, const LaunchState& state) {
      launch(state.driver, state.stream, "bias_add", shape_for(n),
             map_broadcast<T, AddBias<T>, T, T>, loops, output<T>(buffers, 0), n, AddBias<T>{},
             input<T>(buffers, 0), input<T>(buffers, 1));
    }};
  });
}

Kernel prepare_bias_add_grad(const Request& request) {
  const TensorDesc& dy = request.inputs[0];
  std::vector<bool> reduced(static_cast<size_t>(dy.shape.rank()), true);
  reduced[static_cast<size_t>(attribute<int64_t>(request, "axis"))] = false;
  const Reduction reduction(dy, reduced);
  return {reduction.sum(1), reduction.workspace()};
}

}  // namespace

std::span<const KernelEntry> kernels::bias_add() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "bias_add", .prepare = prepare_bias_add, .channels_last = ChannelsLast::kAxis},
      {.op = "bias_add_grad",
       .prepare = prepare_bias_add_grad,
       .order = Order::kOwn,
       .channels_last = ChannelsLast::kAxis},
  };
  return kKernels;
}

}  // namespace flow::cuda
