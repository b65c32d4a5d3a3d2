// Arrays on the host: element types (dtypes), shapes, and bytes in C order, which are owned (Array)
// or borrowed (ArrayView).
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

/// Returns the dtype as job files and NumPy spell it: "float32", "bool".
std::string_view name_of(DType dtype);
/// Returns the dtype with this name, or nothing for any other text.
std::optional<DType> parse_dtype(std::string_view name);
/// Returns all dtypes in the order of the enumeration.
std::span<const DType> all_dtypes();
/// Returns the number of bytes of an element.
size_t size_of(DType dtype);
bool is_float(DType dtype);
/// Returns true for the 16-bit floats.
bool is_low_precision(DType dtype);
/// Returns true for int8, int32, int64 and uint8, but not for bool.
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

/// The largest whole number that no other whole number rounds to when it is converted to a double.
inline constexpr double kLastExact = 0x1p53 - 1;

/// Returns true if an integer dtype or bool has exactly this value. Float dtypes accept every
/// number, which is rounded.
bool is_representable(double value, DType dtype);

/// Returns true if is_representable() does and, for a float dtype, the rounded value is finite.
bool can_hold(DType dtype, double value);
/// Describes the values for which can_hold() is true: "int8 stores whole numbers from -128 to 127".
std::string holds(DType dtype);

/// The extents of an array, outermost first; [] is a scalar. An extent may be 0, but is never
/// negative.
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

  /// Returns the number of elements. REQUIRES: checked_elements() has a value, which is the case
  /// for every shape that the compiler or the plan check accepted.
  int64_t elements() const;
  /// Returns the number of elements, or nothing if this number or 16 times this number overflows 63
  /// bits.
  std::optional<int64_t> checked_elements() const;
  /// Returns the product of the extents in [first, last).
  int64_t elements(int first, int last) const;
  /// Returns the first `count` extents.
  Shape first(int count) const { return Shape(std::vector<int64_t>(begin(), begin() + count)); }
  /// Returns the extents starting with `axis`.
  Shape from(int axis) const { return Shape(std::vector<int64_t>(begin() + axis, end())); }
  /// Returns the extents as text: "[100, 1, 28, 28]".
  std::string str() const;
  /// Returns the index of element `number`, counted in C order, as text: "[3, 0]". REQUIRES: the
  /// element exists.
  std::string index_str(int64_t number) const;

 private:
  std::vector<int64_t> extents_;
};

/// Returns the number of bytes of an array with this shape and dtype.
inline size_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<size_t>(shape.elements()) * size_of(dtype);
}

/// A borrowed, read-only array in C order.
struct ArrayView {
  DType dtype = DType::kFloat32;
  Shape shape;
  const std::byte* data = nullptr;

  size_t bytes() const { return bytes_of(shape, dtype); }
  /// Returns the elements. REQUIRES: T is the C++ type of dtype.
  template <typename T>
  std::span<const T> as() const {
    FLOW_CHECK(DTypeOf<T>::value == dtype);
    return {reinterpret_cast<const T*>(data), static_cast<size_t>(shape.elements())};
  }
};

/// An owned array in C order, which is initially filled with zeros.
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
