// Numbers computed in float64 become elements of an array, rounded once.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/array.h"

namespace flow::exec {

/// Writes each value to `out` as `dtype`: floats to the nearest, integers must be whole and in
/// range, bools are what is not 0. REQUIRES: out holds values.size() elements.
void round_to(std::span<const double> values, DType dtype, std::span<std::byte> out);

/// `array` as another dtype. RunError naming `name` where a value does not fit.
Array convert(const Array& array, DType dtype, const std::string& name);

}  // namespace flow::exec
