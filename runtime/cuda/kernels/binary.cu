// Kernels of functions of two or three numbers that broadcast: binary.def lists them. And scale.
#include "ops/binary.h"

#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

template <typename T>
struct Scale {
  T factor;
  __device__ T operator()(T x) const { return x * factor; }
};

}  // namespace

#define FLOW_NUMBER_PAIR(op, Function)                                          \
  Kernel op(const Request& request) {                                           \
    return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel { \
      return {map_broadcast_launch<T>(#op, request, functions::Function<T>{})}; \
    });                                                                         \
  }
#define FLOW_PAIR(op, Function)                                                                   \
  Kernel op(const Request& request) {                                                             \
    return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {                    \
      const auto f = functions::with_attributes<functions::Function, T>(request.step.attributes); \
      return {map_broadcast_launch<T>(#op, request, f)};                                          \
    });                                                                                           \
  }
#define FLOW_TRIPLE(op, Function)                                                                 \
  Kernel op(const Request& request) {                                                             \
    return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {                    \
      const auto f = functions::with_attributes<functions::Function, T>(request.step.attributes); \
      return {map_triples_launch<T, T>(#op, request, f)};                                         \
    });                                                                                           \
  }
#define FLOW_COMPARISON(op, Function)
#include "ops/binary.def"
#undef FLOW_NUMBER_PAIR
#undef FLOW_PAIR
#undef FLOW_TRIPLE
#undef FLOW_COMPARISON

Kernel scale(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto factor = static_cast<T>(attribute<double>(request, "factor"));
    return {map_launch<T>("scale", request, Scale<T>{factor})};
  });
}

}  // namespace flow::cuda
