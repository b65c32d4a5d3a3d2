// cast: conversion from any dtype to any other; runtime/base/element_types.h defines the converted
// values. copy: a copy of the elements between the device and host memory.
#include "ops/reshape/cuda.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// The number of elements that a thread converts at a time: the number of 16-bit elements in one
/// load.
constexpr int kAtOnce = 8;

template <typename T>
struct alignas(kAtOnce * sizeof(T) < 16 ? kAtOnce * sizeof(T) : 16) Group {
  T values[kAtOnce];
};

template <typename To, typename From>
__device__ void cast_elements(const From* x, std::byte* y, int64_t n) {
  const int64_t groups = n / kAtOnce;
  for (int64_t i = first_index(); i < groups; i += index_step()) {
    const Group<From> from = reinterpret_cast<const Group<From>*>(x)[i];
    Group<To> to;
    for (int k = 0; k < kAtOnce; ++k) to.values[k] = convert<To>(from.values[k]);
    reinterpret_cast<Group<To>*>(y)[i] = to;
  }
  for (int64_t i = groups * kAtOnce + first_index(); i < n; i += index_step())
    reinterpret_cast<To*>(y)[i] = convert<To>(x[i]);
}

/// Computes y[i] = x[i], converted to `to`, for i < n. The dtype of the result is not a template
/// parameter, because that would make 81 kernels.
template <typename From>
__global__ void cast_from(const From* x, std::byte* y, DType to, int64_t n) {
  switch (to) {
    case DType::kFloat32:
      return cast_elements<float>(x, y, n);
    case DType::kFloat64:
      return cast_elements<double>(x, y, n);
    case DType::kFloat16:
      return cast_elements<Float16>(x, y, n);
    case DType::kBFloat16:
      return cast_elements<BFloat16>(x, y, n);
    case DType::kInt8:
      return cast_elements<int8_t>(x, y, n);
    case DType::kInt32:
      return cast_elements<int32_t>(x, y, n);
    case DType::kInt64:
      return cast_elements<int64_t>(x, y, n);
    case DType::kUInt8:
      return cast_elements<uint8_t>(x, y, n);
    case DType::kBool:
      return cast_elements<bool>(x, y, n);
  }
}

Kernel prepare_cast(const Request& request) {
  const DType to = request.outputs[0].dtype;
  return visit_dtype(request.inputs[0].dtype, [&]<typename From>(From) -> Kernel {
    return {[to, n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      launch(state, "cast", shape_for(ceil_div(n, kAtOnce)), cast_from<From>,
             input<From>(buffers, 0), buffers.outputs[0], to, n);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::cast() {
  static constexpr KernelEntry kKernels[] = {
      {"cast", prepare_cast},
      {"copy", prepare_reshape},
  };
  return kKernels;
}

}  // namespace flow::cuda
