// The record of prelu, a rectifier with a trained slope.
#include "ops/core/families.h"

namespace flow::ops {

std::vector<OpSpec> prelu() {
  return {
      {.name = "prelu",
       .doc =
           "Parametric ReLU (He et al., 2015): a trained slope below 0, for each channel of axis "
           "1 or for all.",
       .formula = "y = x > 0 ? x : alpha x",
       .operands = {{"in", "(N, C, ...)"}},
       .attributes = {{"shared", AttributeType::kBool, "false", "use one slope for all channels"},
                      {"alpha_initializer", AttributeType::kInitializer, "constant(0.25)",
                       "initial value of the slopes"},
                      {"alpha_regularizer", AttributeType::kRegularizer, "none",
                       "L1 or L2 penalty on the slopes"}},
       .takes_variables = true}};
}

}  // namespace flow::ops
