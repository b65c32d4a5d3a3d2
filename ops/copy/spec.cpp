// Copies between devices, which passes add where a graph is placed on two.
#include "ops/core/families.h"

namespace flow::ops {

std::span<const OpSpec> copy() {
  static const OpSpec kOps[] = {{
      .name = "copy",
      .doc = "Copies a value to another device.",
      .formula = "y = x",
      .operands = {{"in", "any shape", Accepts::kAny}},
      .infer = infer_like_operand,
      .between_devices = true,
      .linear = {0},
      .moves_elements = true,
      .flops = {0},
      .internal = true,
  }};
  return kOps;
}

}  // namespace flow::ops
