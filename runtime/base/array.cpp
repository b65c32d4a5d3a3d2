// Dtypes, the numbers that their elements can represent, and the extents of arrays.
#include "runtime/base/array.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "runtime/base/element_types.h"

namespace flow {

namespace {

struct Row {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array kRows = {
    Row{DType::kFloat32, "float32", 4}, Row{DType::kFloat64, "float64", 8},
    Row{DType::kFloat16, "float16", 2}, Row{DType::kBFloat16, "bfloat16", 2},
    Row{DType::kInt8, "int8", 1},       Row{DType::kInt32, "int32", 4},
    Row{DType::kInt64, "int64", 8},     Row{DType::kUInt8, "uint8", 1},
    Row{DType::kBool, "bool", 1},
};

constexpr auto kDTypes = [] {
  std::array<DType, kRows.size()> dtypes{};
  for (size_t i = 0; i < kRows.size(); ++i) dtypes[i] = kRows[i].dtype;
  return dtypes;
}();

const Row& row_of(DType dtype) {
  FLOW_CHECK(static_cast<size_t>(dtype) < kRows.size());
  return kRows[static_cast<size_t>(dtype)];
}

}  // namespace

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

std::span<const DType> all_dtypes() { return kDTypes; }

size_t size_of(DType dtype) { return row_of(dtype).size; }

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

bool is_low_precision(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::kBool; }

namespace {

/// Returns `value` rounded to the nearest element of a float dtype.
double rounded(DType dtype, double value) {
  return visit_any_float(dtype, [&]<typename T>(T) { return convert<double>(convert<T>(value)); });
}

std::string_view range_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "numbers up to 3.4028235e+38";
    case DType::kFloat64:
      return "numbers up to 1.7976931348623157e+308";
    case DType::kFloat16:
      return "numbers up to 65504";
    case DType::kBFloat16:
      return "numbers up to 3.3895314e+38";
    case DType::kInt8:
      return "whole numbers from -128 to 127";
    case DType::kInt32:
      return "whole numbers from -2147483648 to 2147483647";
    case DType::kInt64:
      return "whole numbers from -9223372036854775808 to 9223372036854775807";
    case DType::kUInt8:
      return "whole numbers from 0 to 255";
    case DType::kBool:
      return "0 and 1";
  }
  return {};
}

}  // namespace

bool is_representable(double value, DType dtype) {
  const auto whole_in = [value](double low, double high) {
    return low <= value && value <= high && value == std::floor(value);
  };
  switch (dtype) {
    case DType::kBool:
      return whole_in(0, 1);
    case DType::kUInt8:
      return whole_in(0, 255);
    case DType::kInt8:
      return whole_in(-128, 127);
    case DType::kInt32:
      return whole_in(-0x1p31, 0x1p31 - 1);
    case DType::kInt64:
      return whole_in(-0x1p63, 0x1p63 - 1024);  // the largest double below 2^63
    default:
      return true;
  }
}

bool can_hold(DType dtype, double value) {
  return is_float(dtype) ? std::isfinite(rounded(dtype, value)) : is_representable(value, dtype);
}

std::string holds(DType dtype) {
  return fmt::format("{} stores {}", name_of(dtype), range_of(dtype));
}

std::optional<int64_t> Shape::checked_elements() const {
  constexpr int64_t kLimit = std::numeric_limits<int64_t>::max() / 16;
  int64_t count = 1;
  bool empty = false;
  for (const int64_t extent : extents_) {
    if (extent == 0) empty = true;
    if (extent < 0 || (extent > 0 && count > kLimit / extent)) return std::nullopt;
    if (extent > 0) count *= extent;
  }
  return empty ? 0 : count;
}

int64_t Shape::elements() const { return elements(0, rank()); }

int64_t Shape::elements(int first, int last) const {
  FLOW_CHECK(0 <= first && first <= last && last <= rank());
  int64_t count = 1;
  for (int axis = first; axis < last; ++axis) count *= (*this)[axis];
  return count;
}

std::string Shape::str() const {
  std::string text = "[";
  for (const int64_t extent : extents_) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

std::string Shape::index_str(int64_t number) const {
  std::vector<int64_t> index;
  for (int axis = 0; axis < rank(); ++axis) {
    const int64_t inner = elements(axis + 1, rank());
    index.push_back(number / inner);
    number %= inner;
  }
  return Shape(std::move(index)).str();
}

}  // namespace flow
