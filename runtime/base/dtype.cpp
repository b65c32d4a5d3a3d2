// The element types of the language.
#include "runtime/base/dtype.h"

#include <array>

#include "runtime/base/check.h"

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

}  // namespace flow
