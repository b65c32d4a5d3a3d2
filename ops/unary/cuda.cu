// Kernels of the unary ops in unary.def and of their gradients.
#include "ops/unary/unary.h"

#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

/// Applies a function of floats to elements of type T, which may have 16 bits.
template <typename F>
struct Value {
  F f;
  template <typename T>
  __device__ T operator()(T x) const {
    return convert<T>(f(convert<Wide<T>>(x)));
  }
};

template <typename F>
struct Gradient {
  F f;
  template <typename T>
  __device__ T operator()(T dy, T v) const {
    return convert<T>(f.gradient(convert<Wide<T>>(dy), convert<Wide<T>>(v)));
  }
};

/// True for activations between convolutions, which also support 16 bits and channels last. Sigmoid
/// is excluded, because rounding a result to 1 would lose its logarithm.
template <template <typename> class Function>
inline constexpr bool kActivates = false;
template <>
inline constexpr bool kActivates<functions::Relu> = true;
template <>
inline constexpr bool kActivates<functions::Relu6> = true;
template <>
inline constexpr bool kActivates<functions::LeakyRelu> = true;
template <>
inline constexpr bool kActivates<functions::Silu> = true;
template <>
inline constexpr bool kActivates<functions::HardSwish> = true;

/// The support of an op's kernels for channels last.
template <Prepare prepare>
inline constexpr ChannelsLast kLayoutOf = ChannelsLast::kNo;

/// Calls visit(zero, f) with a zero of the operands' type and with the function at the precision of
/// computation for that type.
template <template <typename> class Function, typename Visit>
Kernel visit_operands(const Request& request, Visit visit) {
  const DType dtype = request.inputs[0].dtype;
  const auto with_function = [&]<typename T>(T zero) -> Kernel {
    return {visit(zero, functions::with_attributes<Function, Wide<T>>(request.step.attributes))};
  };
  if constexpr (kActivates<Function>)
    return visit_any_float(dtype, with_function);
  else
    return visit_float(dtype, with_function);
}

bool approximates_by_tanh(const Request& request) {
  return attribute<std::string>(request, "approximate") == "tanh";
}

#define FLOW_UNARY_NUMBER_FUNCTOR(op, Function)                                 \
  Kernel prepare_##op(const Request& request) {                                 \
    return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel { \
      return {map_launch<T>(#op, request, functions::Function<T>{})};           \
    });                                                                         \
  }
#define FLOW_UNARY_STEP_FUNCTOR(op, Function)                                  \
  Kernel prepare_##op(const Request& request) {                                \
    return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel { \
      return {map_launch<T>(#op, request, functions::Function<T>{})};          \
    });                                                                        \
  }
#define FLOW_UNARY_TEST_FUNCTOR(op, Function)                                  \
  Kernel prepare_##op(const Request& request) {                                \
    return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel { \
      return {test_launch<T>(#op, request, functions::Function<T>{})};         \
    });                                                                        \
  }
#define FLOW_UNARY_FUNCTOR(op, Function)                                                      \
  Kernel prepare_##op(const Request& request) {                                               \
    return visit_operands<functions::Function>(request, [&]<typename T, typename F>(T, F f) { \
      return map_launch<T>(#op, request, Value<F>{f});                                        \
    });                                                                                       \
  }                                                                                           \
  Kernel prepare_##op##_grad(const Request& request) {                                        \
    return visit_operands<functions::Function>(request, [&]<typename T, typename F>(T, F f) { \
      return map_pairs_launch<T>(#op "_grad", request, Gradient<F>{f});                       \
    });                                                                                       \
  }                                                                                           \
  template <>                                                                                 \
  inline constexpr ChannelsLast kLayoutOf<prepare_##op> =                                     \
      kActivates<functions::Function> ? ChannelsLast::kSame : ChannelsLast::kNo;
#include "ops/unary/unary.def"

Kernel prepare_gelu(const Request& request) {
  return approximates_by_tanh(request) ? prepare_gelu_tanh(request) : prepare_gelu_erf(request);
}

Kernel prepare_gelu_grad(const Request& request) {
  return approximates_by_tanh(request) ? prepare_gelu_tanh_grad(request)
                                       : prepare_gelu_erf_grad(request);
}

}  // namespace

std::span<const KernelEntry> kernels::unary() {
  static constexpr KernelEntry kKernels[] = {
#define FLOW_UNARY_NUMBER_SPEC(op, ...) {#op, prepare_##op},
#define FLOW_UNARY_SPEC(op, ...)                            \
  {#op, prepare_##op, {}, {}, {}, kLayoutOf<prepare_##op>}, \
      {#op "_grad", prepare_##op##_grad, {}, {}, {}, kLayoutOf<prepare_##op>},
#include "ops/unary/unary.def"
  };
  return kKernels;
}

}  // namespace flow::cuda
