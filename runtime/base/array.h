// Host arrays: element types (dtypes), shapes, and bytes in C order, owned (Array) or borrowed
// (ArrayView).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace flow {

/// The element types of the language.
enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kInt32,
  kInt64,
  kUInt8,
  kBool
};

/// The dtype as job files and NumPy spell it: "float32", "bool".
std::string_view name_of(DType dtype);
/// The inverse of name_of; nothing for any other text.
std::optional<DType> parse_dtype(std::string_view name);
/// All dtypes in the order of the enumeration.
std::span<const DType> all_dtypes();
/// Bytes of one element.
size_t size_of(DType dtype);
bool is_float(DType dtype);
/// True for the floats of 16 bits.
bool is_low_precision(DType dtype);
/// True for int8, int32, int64 and uint8 (not bool).
bool is_integer(DType dtype);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

/// The last whole number that no other one rounds to as a double.
inline constexpr double kLastExact = 0x1p53 - 1;

/// Is `value` one of the values of an integer dtype or bool? Floats take any number, rounded.
bool is_representable(double value, DType dtype);

/// The same, and floats take what they round to a finite number.
bool can_hold(DType dtype, double value);
/// What can_hold asks, in words: "int8 holds whole numbers from -128 to 127".
std::string holds(DType dtype);

/// Extents of an array, outermost first; [] is a scalar. Extents may be 0, never negative.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<int64_t> extents) : extents_(std::move(extents)) {}

  int rank() const { return static_cast<int>(extents_.size()); }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return extents_[static_cast<size_t>(axis)]; }
  const std::vector<int64_t>& extents() const { return extents_; }
  auto begin() const { return extents_.begin(); }
  auto end() const { return extents_.end(); }
  friend bool operator==(const Shape&, const Shape&) = default;

  /// Number of elements. REQUIRES: checked_elements() has a value (true for every shape that
  /// passed the compiler or the plan check).
  int64_t elements() const;
  /// Number of elements, or nothing where it (or 16 bytes for each) overflows 63 bits.
  std::optional<int64_t> checked_elements() const;
  /// Product of the extents in [first, last).
  int64_t elements(int first, int last) const;
  /// The first `count` extents.
  Shape first(int count) const { return Shape(std::vector<int64_t>(begin(), begin() + count)); }
  /// The extents from this axis on.
  Shape from(int axis) const { return Shape(std::vector<int64_t>(begin() + axis, end())); }
  /// "[100, 1, 28, 28]"
  std::string str() const;
  /// "[3, 0]": the index of the element that has this number in C order. REQUIRES: there is one.
  std::string index_str(int64_t number) const;

 private:
  std::vector<int64_t> extents_;
};

/// The bytes of an array of that shape and dtype.
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
