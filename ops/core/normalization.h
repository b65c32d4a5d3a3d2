// What the normalising layers and their primitives have in common.
#pragma once

#include "ops/core/spec.h"

namespace flow::ops {

AttributeSpec first_axis_attribute();
AttributeSpec epsilon_attribute(std::string_view fallback);
AttributeSpec center_attribute();
AttributeSpec scale_attribute();

/// Reports an operand 0 that is not [N, C, ...] with channels for the attribute `groups`.
bool has_groups(Call& call);

}  // namespace flow::ops
