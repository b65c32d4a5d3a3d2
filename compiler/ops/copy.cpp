// Copies between devices, which passes add where a graph is placed on two.
#include "compiler/ops/families.h"

namespace flow::ops {
namespace {

void infer_copy(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  inference.result(x.dtype, x.shape, x.rows);
}

}  // namespace

std::span<const OpDef> copy() {
  static const OpDef kOps[] = {{
      .name = "copy",
      .doc = "The same value on another device.",
      .formula = "y = x",
      .operands = {{"in", "any shape", Accepts::kAny}},
      .infer = infer_copy,
      .internal = true,
  }};
  return kOps;
}

}  // namespace flow::ops
