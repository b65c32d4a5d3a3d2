// A variable of the user's own.
#include <fmt/format.h>

#include "compiler/ops/families.h"
#include "compiler/ops/initializers.h"

namespace flow::defs {
namespace {

ir::ValueId expand_variable(LayerContext& context) {
  const auto dtype = context.attributes.get<DType>("dtype");
  if (dtype != context.number()) {
    context.site().bad_attribute(
        "dtype", Diagnosis::kDTypeMismatch,
        fmt::format("`dtype` is {}; expected {}, the float dtype of the job", name_of(dtype),
                    name_of(context.number())));
    return {};
  }
  const Shape shape(context.attributes.get<std::vector<int64_t>>("shape"));
  return context.add_variable("", "initializer", dtype, shape, fans_of(shape));
}

}  // namespace

std::span<const OpDef> variable() {
  static const OpDef kOps[] = {{
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
      .expand = expand_variable,
      .takes_variables = true,
  }};
  return kOps;
}

}  // namespace flow::defs
