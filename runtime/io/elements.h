// The elements of an array as C++ values: one visit instead of a switch wherever a dtype matters.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "runtime/base/array.h"
#include "runtime/base/convert.h"

namespace flow::io {

/// A byte of a file need not be 0 or 1; a C++ bool must.
struct Bool {
  uint8_t byte;
  operator bool() const { return byte != 0; }
};

/// Calls body(T{}) with the type that an element of this dtype has in memory and in files.
template <typename Body>
decltype(auto) visit_stored(DType dtype, Body body) {
  switch (dtype) {
    case DType::kFloat16:
      return body(Float16{});
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kBool:
      return body(Bool{});
    default:
      return visit_number(dtype, body);
  }
}

/// A number as an element, rounded once. REQUIRES: an integer has this value; bools are what is not
/// 0.
template <typename T>
T element_of(double value) {
  if constexpr (std::is_same_v<T, Bool>)
    return {static_cast<uint8_t>(value != 0)};
  else
    return flow::convert<T>(value);
}

/// Calls body(std::span<const T>) with the elements of `array`.
template <typename Body>
decltype(auto) visit_elements(const ArrayView& array, Body body) {
  return visit_stored(array.dtype, [&](auto element) -> decltype(auto) {
    using T = decltype(element);
    return body(std::span<const T>(reinterpret_cast<const T*>(array.data),
                                   static_cast<size_t>(array.shape.elements())));
  });
}

}  // namespace flow::io
