// Infinities and NaNs in arrays.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/base/array.h"
#include "runtime/exec/core/state.h"

namespace flow::exec {

/// "nan at [3, 0]": the first element that is no finite number, where there is one.
std::optional<std::string> first_nonfinite(const ArrayView& value);

/// "`w` is nan at [3, 0] (the first of 2 such variables)": of those that are wanted.
std::optional<std::string> nonfinite_variables(
    const State& state, const std::function<bool(const plan::Variable&)>& wanted);

}  // namespace flow::exec
