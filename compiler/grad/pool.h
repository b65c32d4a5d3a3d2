// What rules of pools have in common.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ir/rules.h"

namespace flow::grad {

/// The op `op`, the gradient of a pool, of these operands.
std::vector<ir::ValueId> pool_gradient(GradientContext& context, std::string_view op,
                                       std::vector<ir::ValueId> operands);

/// [N, C, D, H, W] pooled by `op` over height and width, then over depth, which gives the same as
/// one pool over all; invalid after an error.
ir::ValueId expand_pool3d(LayerContext& context, std::string_view op);

/// (N, C, ...) reduced by `op` to (N, C), or to axes of size 1; invalid after an error.
ir::ValueId expand_global_pool(LayerContext& context, std::string_view op);

/// [N, C, L] as images of height 1, pooled by `op`; invalid after an error.
ir::ValueId expand_pool1d(LayerContext& context, std::string_view op);

}  // namespace flow::grad
