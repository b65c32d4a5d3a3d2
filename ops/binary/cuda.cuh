// CUDA kernels of the functions of two or three numbers that broadcast (listed in binary.def).
#pragma once

#include "ops/binary/binary.h"
#include "runtime/base/element_types.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {

/// The name of a function's op, which is also the name of its launches.
template <template <typename> class F>
inline constexpr const char* kOp = nullptr;
#define FLOW_PAIR_FUNCTOR(op, Function) \
  template <>                           \
  inline constexpr const char* kOp<functions::Function> = #op;
#define FLOW_TRIPLE_FUNCTOR FLOW_PAIR_FUNCTOR
#include "ops/binary/binary.def"

/// True for functions that combine activations between convolutions. These functions also support
/// 16-bit floats and channels-last layouts.
template <template <typename> class F>
inline constexpr bool kJoinsImages = false;
template <>
inline constexpr bool kJoinsImages<functions::Add> = true;
template <>
inline constexpr bool kJoinsImages<functions::Subtract> = true;
template <>
inline constexpr bool kJoinsImages<functions::Multiply> = true;

template <template <typename> class F>
constexpr ChannelsLast layout_of_pairs() {
  return kJoinsImages<F> ? ChannelsLast::kSame : ChannelsLast::kNo;
}

/// A function of floats, applied to 16-bit floats.
template <typename F>
struct Rounded {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return convert<T>(F{}(convert<float>(a), convert<float>(b)));
  }
};

/// Returns the kernel of a function of two floats or two integers.
template <template <typename> class F>
Kernel number_pair_kernel(const Request& request) {
  if constexpr (kJoinsImages<F>) {
    const auto rounded = [&]<typename T>(T) -> Kernel {
      return {map_broadcast_launch<T>(kOp<F>, request, Rounded<F<float>>{})};
    };
    if (request.inputs[0].dtype == DType::kFloat16) return rounded(Float16{});
    if (request.inputs[0].dtype == DType::kBFloat16) return rounded(BFloat16{});
  }
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {map_broadcast_launch<T>(kOp<F>, request, F<T>{})};
  });
}

/// Returns the kernel of a function of two floats.
template <template <typename> class F>
Kernel pair_kernel(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto f = functions::with_attributes<F, T>(request.step.attributes);
    return {map_broadcast_launch<T>(kOp<F>, request, f)};
  });
}

/// Returns the kernel of a function of three floats.
template <template <typename> class F>
Kernel triple_kernel(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto f = functions::with_attributes<F, T>(request.step.attributes);
    return {broadcast_launch<T, T, T, T>(kOp<F>, request, f)};
  });
}

}  // namespace flow::cuda
