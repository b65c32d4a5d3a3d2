// Can a number be an element of a dtype as it is?
#pragma once

#include <string>

#include "runtime/base/dtype.h"

namespace flow {

/// The last whole number that no other one rounds to as a double.
inline constexpr double kLastExact = 0x1p53 - 1;

/// Is `value` one of the values of an integer dtype or bool? Floats take any number, rounded.
bool is_representable(double value, DType dtype);

/// The same, and floats take what they round to a finite number.
bool can_hold(DType dtype, double value);
/// What can_hold asks, in words: "int8 holds whole numbers from -128 to 127".
std::string holds(DType dtype);

}  // namespace flow
