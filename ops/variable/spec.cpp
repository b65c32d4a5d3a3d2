// The record of a variable of the user's own.
#include "ops/core/families.h"

namespace flow::ops {

std::span<const OpSpec> variable() {
  static const OpSpec kOps[] = {{
      .name = "variable",
      .doc = "A trainable variable under the name of the entry.",
      .formula = "y = W",
      .operands = {},
      .attributes = {{.name = "shape",
                      .type = AttributeType::kIntegers,
                      .fallback = "",
                      .doc = "shape of the variable",
                      .min = 1},
                     {"initializer", AttributeType::kInitializer, "",
                      "initial value of the variable"},
                     {"regularizer", AttributeType::kRegularizer, "none",
                      "L1 or L2 penalty on the variable"},
                     {"dtype", AttributeType::kDType, "float32", "float dtype of the job"}},
      .takes_variables = true,
  }};
  return kOps;
}

}  // namespace flow::ops
