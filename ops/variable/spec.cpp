// The record of entries that declare a variable.
#include "ops/core/families.h"

namespace flow::ops {

std::vector<OpSpec> variable() {
  return {{.name = "variable",
           .doc = "A trainable variable under the name of the entry.",
           .formula = "y = W",
           .operands = {},
           .attributes = {extents_attribute("shape", "", "shape of the variable"),
                          {"initializer", AttributeType::kInitializer, "",
                           "initial value of the variable"},
                          {"regularizer", AttributeType::kRegularizer, "none",
                           "L1 or L2 penalty on the variable"},
                          {"dtype", AttributeType::kDType, "float32", "float dtype of the job"}},
           .takes_variables = true}};
}

}  // namespace flow::ops
