// How layers with an activation end.
#pragma once

#include <string>

#include "compiler/ir/rules.h"

namespace flow {

/// The activation and `restore`, which gives the result its shape: an elementwise activation comes
/// first, where it can be fused.
template <typename Restore>
ir::ValueId activate_and_restore(const LayerContext& context, ir::ValueId y, Restore restore) {
  const ops::OpSpec* op = ops::find_spec(context.attributes.get<std::string>("activation"));
  return op && op->elementwise ? restore(context.activate(y)) : context.activate(restore(y));
}

}  // namespace flow
