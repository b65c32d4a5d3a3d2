// Operands of layers with channels.
#pragma once

#include <fmt/format.h>

#include "compiler/ir/rules.h"

namespace flow {

/// Is operand 0 (N, C, ...), of at least `rank` axes? Reports it if not.
inline bool has_channels(const LayerContext& context, int rank) {
  const Shape& x = context.operand(0).shape;
  if (x.rank() >= rank) return true;
  context.site().bad_operand(
      0, Diagnosis::kRankMismatch,
      fmt::format("{} has fewer than {} dimensions; expected (N, C, ...)", x.str(), rank));
  return false;
}

}  // namespace flow
