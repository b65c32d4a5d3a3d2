// Numbers of job files that become elements.
#pragma once

#include <string_view>

#include "compiler/ir/rules.h"

namespace flow::grad {

/// Is `value` a finite number of the dtype that the layer names? Reports the attribute if not. An
/// integer beyond 2^53 may be the neighbour of the one that was meant: numbers of the file are
/// doubles.
bool is_held(const LayerContext& context, std::string_view attribute, double value);

/// The same, and floats may be infinite or NaN.
bool is_held_or_infinite(const LayerContext& context, std::string_view attribute, double value);

}  // namespace flow::grad
