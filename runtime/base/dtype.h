// The element types of the language: their names, their sizes, and the C++ type of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace flow {

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

}  // namespace flow
