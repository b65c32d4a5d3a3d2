// Lengths as images of height 1, over which windows slide.
#pragma once

#include <string_view>

#include "compiler/ir/rules.h"

namespace flow {

/// The operand of a layer over lengths: [N, C, L] as the images [N, C, 1, L].
ir::ValueId with_height(const LayerContext& context, std::string_view part, ir::ValueId x);
/// What with_height has made, or what was made of it, without the height.
ir::ValueId without_height(const LayerContext& context, std::string_view part, ir::ValueId y);

}  // namespace flow
