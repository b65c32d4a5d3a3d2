// Can a number be an element of a dtype as it is?
#pragma once

#include "runtime/base/dtype.h"

namespace flow {

/// Is `value` one of the values of an integer dtype or bool? Floats take any number, rounded.
bool is_representable(double value, DType dtype);

}  // namespace flow
