// The elements of an array: as C++ values (one visit replaces a switch over the dtype), in the
// dtype in which they leave a run, and with permuted axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "runtime/base/array.h"
#include "runtime/base/element_types.h"

namespace flow::io {

/// A bool as a file stores it: its byte may have any value, while a C++ bool must be 0 or 1.
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

/// Converts a number to an element, rounded once. A bool is true if the number is not 0. REQUIRES:
/// an integer type can represent the number.
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

/// Converts bfloat16, which .npy does not have, to float32, and passes every other dtype on
/// unchanged.
class Delivered {
 public:
  /// Prepares to convert values of this dtype and at most this shape.
  Delivered(DType dtype, const Shape& shape) {
    if (dtype == DType::kBFloat16) wide_ = Array(DType::kFloat32, shape);
  }

  static DType dtype_of(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

  /// The result is valid until the next call.
  ArrayView operator()(const ArrayView& value) {
    if (value.dtype != DType::kBFloat16) return value;
    visit_elements(value, [&](auto elements) {
      FLOW_CHECK(elements.size() * sizeof(float) <= wide_.bytes().size());
      auto* out = wide_.as<float>().data();
      for (size_t i = 0; i < elements.size(); ++i) out[i] = static_cast<float>(elements[i]);
    });
    return {DType::kFloat32, value.shape, wide_.bytes().data()};
  }

 private:
  Array wide_;
};

/// The shape whose axis k is axis perm[k] of `shape`.
Shape permuted(const Shape& shape, std::span<const int64_t> perm);

/// Returns true if both are shapes of matrices, they differ, and each is the other one transposed.
bool are_transposed(const Shape& a, const Shape& b);

/// Permutes the axes of an array of `shape`, which is in C order, and writes the result in C order.
/// `element` is the number of bytes of an element. REQUIRES: `perm` contains each axis once.
void copy_permuted(const std::byte* from, const Shape& shape, std::span<const int64_t> perm,
                   size_t element, std::byte* to);

}  // namespace flow::io
