// The elements of an array as C++ values: one visit instead of a switch wherever a dtype matters.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/array.h"
#include "runtime/base/half.h"

namespace flow::io {

/// The elements that C++ has no type for, as they lie in memory.
struct Float16 {
  uint16_t bits;
  operator float() const { return float16_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits;
  operator float() const { return bfloat16_to_float(bits); }
};
/// A byte of a file need not be 0 or 1; a C++ bool must.
struct Bool {
  uint8_t byte;
  operator bool() const { return byte != 0; }
};

/// Calls body(T{}) with the type that an element of this dtype has in memory.
template <typename Body>
decltype(auto) visit_dtype(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
    case DType::kFloat16:
      return body(Float16{});
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kInt8:
      return body(int8_t{});
    case DType::kInt32:
      return body(int32_t{});
    case DType::kInt64:
      return body(int64_t{});
    case DType::kUInt8:
      return body(uint8_t{});
    case DType::kBool:
      return body(Bool{});
  }
  FLOW_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return body(float{});
}

/// Calls body(std::span<const T>) with the elements of `array`.
template <typename Body>
decltype(auto) visit_elements(const ArrayView& array, Body body) {
  return visit_dtype(array.dtype, [&](auto element) -> decltype(auto) {
    using T = decltype(element);
    return body(std::span<const T>(reinterpret_cast<const T*>(array.data),
                                   static_cast<size_t>(array.shape.elements())));
  });
}

}  // namespace flow::io
