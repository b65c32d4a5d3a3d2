// Kernels of functions of one number, element by element, and of their gradients: functions.def
// lists them.
#include "runtime/base/functions.h"

#include "runtime/cuda/map.cuh"

namespace flow::cuda {
namespace {

template <typename F>
struct Gradient {
  F f;
  template <typename T>
  __device__ T operator()(T dy, T v) const {
    return f.gradient(dy, v);
  }
};

bool approximates_by_tanh(const Request& request) {
  return attribute<std::string>(request, "approximate") == "tanh";
}

}  // namespace

#define FLOW_NUMBER_FUNCTION(op, Function)                                      \
  Kernel op(const Request& request) {                                           \
    return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel { \
      return {map_launch<T>(#op, request, functions::Function<T>{})};           \
    });                                                                         \
  }
#define FLOW_FUNCTION(op, Function, ...)                                            \
  Kernel op(const Request& request) {                                               \
    return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {      \
      const auto f = functions::with_attributes<functions::Function, T>(            \
          request.step.attributes __VA_OPT__(, ) __VA_ARGS__);                      \
      return {map_launch<T>(#op, request, f)};                                      \
    });                                                                             \
  }                                                                                 \
  Kernel op##_grad(const Request& request) {                                        \
    return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {      \
      const auto f = functions::with_attributes<functions::Function, T>(            \
          request.step.attributes __VA_OPT__(, ) __VA_ARGS__);                      \
      return {map_pairs_launch<T>(#op "_grad", request, Gradient<decltype(f)>{f})}; \
    });                                                                             \
  }
#include "runtime/base/functions.def"
#undef FLOW_NUMBER_FUNCTION
#undef FLOW_FUNCTION

Kernel gelu(const Request& request) {
  return approximates_by_tanh(request) ? gelu_tanh(request) : gelu_erf(request);
}

Kernel gelu_grad(const Request& request) {
  return approximates_by_tanh(request) ? gelu_tanh_grad(request) : gelu_erf_grad(request);
}

}  // namespace flow::cuda
