// cast: conversion from any dtype to any other; runtime/base/element_types.h defines the converted
// values. copy: a copy of the elements in memory that another device can access.
#include "ops/reshape/cpu.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

template <typename From, typename To>
void cast_piece(const From* x, To* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
}

/// Converts the images of a uint8 dataset.
FLOW_VECTORIZED void widen_bytes(const uint8_t* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
}

/// Convert the operands of products in mixed-precision jobs, and their results.
void round_floats(const float* x, BFloat16* y, int64_t n) { round_to_bfloat16(x, &y->bits, n); }

void widen_floats(const BFloat16* x, float* y, int64_t n) { widen_bfloat16(&x->bits, y, n); }

template <typename From, typename To>
Kernel cast_with(const Request& request, void (*cast)(const From*, To*, int64_t)) {
  return elementwise(request, [cast](const Piece& piece) {
    cast(piece.input<From>(0), piece.output<To>(0), piece.size());
  });
}

Kernel prepare_cast(const Request& request) {
  const DType from = request.inputs[0].dtype, to = request.outputs[0].dtype;
  if (from == DType::kUInt8 && to == DType::kFloat32) return cast_with(request, widen_bytes);
  if (from == DType::kFloat32 && to == DType::kBFloat16) return cast_with(request, round_floats);
  if (from == DType::kBFloat16 && to == DType::kFloat32) return cast_with(request, widen_floats);
  return visit_dtype(from, [&]<typename From>(From) {
    return visit_dtype(
        to, [&]<typename To>(To) { return cast_with<From, To>(request, cast_piece<From, To>); });
  });
}

}  // namespace

std::span<const KernelEntry> cast() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "cast", .prepare = prepare_cast, .layouts = Layouts::kSame, .float64 = prepare_cast},
      {.op = "copy", .prepare = prepare_reshape, .layouts = Layouts::kEach, .any_dtype = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
