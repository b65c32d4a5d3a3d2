// Infinities and NaNs in arrays.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/array.h"

namespace flow::exec {

/// "nan at [3, 0]": the first element that is no finite number, where there is one.
std::optional<std::string> first_nonfinite(const ArrayView& value);

}  // namespace flow::exec
