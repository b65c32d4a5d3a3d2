// Attributes that are stored as elements.
#pragma once

#include <string_view>

#include "ops/core/call.h"

namespace flow::ops {

/// Whether the number in the attribute can be an element of that dtype as it is; reports one that
/// cannot.
bool can_store(Call& call, std::string_view attribute, DType dtype);

}  // namespace flow::ops
