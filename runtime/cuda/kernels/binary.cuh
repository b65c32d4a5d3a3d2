// Kernels of functions of two or three numbers that broadcast: binary.def lists them.
#pragma once

#include "ops/binary.h"
#include "runtime/cuda/loops/map.cuh"
#include "runtime/cuda/loops/operands.h"

namespace flow::cuda {

/// The op that a function is; its launches are named so.
template <template <typename> class F>
inline constexpr const char* kOp = nullptr;
#define FLOW_PAIR_FUNCTOR(op, Function) \
  template <>                           \
  inline constexpr const char* kOp<functions::Function> = #op;
#define FLOW_TRIPLE_FUNCTOR FLOW_PAIR_FUNCTOR
#include "ops/binary.def"

/// Of two floats or two integers.
template <template <typename> class F>
Kernel number_pair_kernel(const Request& request) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {map_broadcast_launch<T>(kOp<F>, request, F<T>{})};
  });
}

/// Of two floats.
template <template <typename> class F>
Kernel pair_kernel(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto f = functions::with_attributes<F, T>(request.step.attributes);
    return {map_broadcast_launch<T>(kOp<F>, request, f)};
  });
}

/// Of three floats.
template <template <typename> class F>
Kernel triple_kernel(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto f = functions::with_attributes<F, T>(request.step.attributes);
    return {map_triples_launch<T, T>(kOp<F>, request, f)};
  });
}

}  // namespace flow::cuda
