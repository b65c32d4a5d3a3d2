// Copies between devices, which passes add where a graph is placed on two.
#include "compiler/ops/families.h"

namespace flow::defs {

std::span<const OpDef> copy() {
  static const OpDef kOps[] = {{
      .name = "copy",
      .doc = "Copies a value to another device.",
      .formula = "y = x",
      .operands = {{"in", "any shape", Accepts::kAny}},
      .infer = infer_like_operand,
      .internal = true,
  }};
  return kOps;
}

}  // namespace flow::defs
