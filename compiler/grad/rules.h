// What the compiler adds to the records of ops: gradients of primitives, expansions of layers.
#pragma once

#include <span>
#include <string_view>

#include "compiler/ops/op_def.h"

namespace flow::grad {

struct Rules {
  std::string_view op;
  GradientRule gradient = nullptr;  // none: the loss cannot depend on it
  ExpandRule expand = nullptr;      // none: not a layer
};

#define FLOW_RULES(family) std::span<const Rules> family();
#include "compiler/grad/families.def"
#undef FLOW_RULES

/// The rules of the op of that name; empty ones where it has none.
Rules rules_of(std::string_view op);

}  // namespace flow::grad
