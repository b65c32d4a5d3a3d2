// The dtypes that the `precision` of a job selects.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "runtime/base/array.h"

namespace flow::plan {

inline constexpr std::array<std::string_view, 5> kPrecisions = {"float32", "float64", "tf32",
                                                                "mixed_bfloat16", "mixed_float16"};

/// Returns the float dtype of variables and of all computed values.
inline DType compute_dtype_of(std::string_view precision) {
  return precision == "float64" ? DType::kFloat64 : DType::kFloat32;
}

/// Returns the 16-bit float dtype of the operands of products in a mixed-precision job, or nothing
/// for other jobs.
inline std::optional<DType> low_precision_of(std::string_view precision) {
  if (precision == "mixed_bfloat16") return DType::kBFloat16;
  if (precision == "mixed_float16") return DType::kFloat16;
  return {};
}

}  // namespace flow::plan
