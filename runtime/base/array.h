// A host array: dtype, shape, and C-order bytes; owned (Array) or borrowed (ArrayView).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace flow {

/// Bytes of so many elements.
inline size_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<size_t>(shape.elements()) * size_of(dtype);
}

/// A borrowed, read-only array in C order.
struct ArrayView {
  DType dtype = DType::kFloat32;
  Shape shape;
  const std::byte* data = nullptr;

  size_t bytes() const { return bytes_of(shape, dtype); }
  /// The elements. REQUIRES: T is the C++ type of dtype.
  template <typename T>
  std::span<const T> as() const {
    FLOW_CHECK(DTypeOf<T>::value == dtype);
    return {reinterpret_cast<const T*>(data), static_cast<size_t>(shape.elements())};
  }
};

/// An owned array in C order, zero-filled at first.
class Array {
 public:
  Array() : Array(DType::kFloat32, Shape{0}) {}
  Array(DType dtype, Shape shape)
      : dtype_(dtype), shape_(std::move(shape)), bytes_(bytes_of(shape_, dtype)) {}

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  ArrayView view() const { return {dtype_, shape_, bytes_.data()}; }
  template <typename T>
  std::span<T> as() {
    FLOW_CHECK(DTypeOf<T>::value == dtype_);
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return view().as<T>();
  }

 private:
  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

}  // namespace flow
