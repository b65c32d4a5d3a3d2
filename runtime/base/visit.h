// The C++ type of a dtype, for templates over elements.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/base/check.h"
#include "runtime/base/dtype.h"
#include "runtime/base/half.h"

namespace flow {

/// The 16-bit floats as elements of arrays.
struct Float16 {
  uint16_t bits;
  FLOW_HOST_DEVICE operator float() const { return float16_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits;
  FLOW_HOST_DEVICE operator float() const { return bfloat16_to_float(bits); }
};

template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};

/// What a float is computed in: those of 16 bits in float32, others in themselves.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

[[noreturn]] inline void dtype_not_expected(DType dtype) {
  check_failed(__FILE__, __LINE__, "dtype", std::string(name_of(dtype)));
}

/// Calls f with a zero of the C++ type of `dtype`, float or double, and returns what it does.
template <typename F>
auto visit_float(DType dtype, F f) {
  if (dtype == DType::kFloat64) return f(double{});
  if (dtype == DType::kFloat32) return f(float{});
  dtype_not_expected(dtype);
}

/// The same for a float dtype of any size.
template <typename F>
auto visit_any_float(DType dtype, F f) {
  if (dtype == DType::kFloat16) return f(Float16{});
  if (dtype == DType::kBFloat16) return f(BFloat16{});
  return visit_float(dtype, f);
}

/// The same for an integer dtype.
template <typename F>
auto visit_integer(DType dtype, F f) {
  switch (dtype) {
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUInt8:
      return f(uint8_t{});
    default:
      dtype_not_expected(dtype);
  }
}

/// The same for float32, float64 and the integers.
template <typename F>
auto visit_number(DType dtype, F f) {
  return is_integer(dtype) ? visit_integer(dtype, f) : visit_float(dtype, f);
}

/// The same for any of the nine.
template <typename F>
auto visit_dtype(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kBool:
      return f(bool{});
    default:
      return visit_number(dtype, f);
  }
}

/// Calls f with a zero of the unsigned integer of as many bytes: for what moves elements and does
/// not look at them.
template <typename F>
auto visit_size(size_t bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      check_failed(__FILE__, __LINE__, "bytes", std::to_string(bytes));
  }
}

}  // namespace flow
