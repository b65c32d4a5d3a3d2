// The functions behind ops.def: each returns the ops of its family.
#pragma once

#include <span>

#include "compiler/ops/op_def.h"

namespace flow::defs {

#define FLOW_OPS(family) std::span<const OpDef> family();
#include "compiler/ops/ops.def"

}  // namespace flow::defs
