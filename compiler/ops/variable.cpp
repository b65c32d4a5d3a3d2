// A variable of the user's own.
#include <fmt/format.h>

#include "compiler/ops/families.h"
#include "compiler/ops/initializers.h"

namespace flow::ops {
namespace {

ir::ValueId expand_variable(LayerContext& context) {
  const auto dtype = context.attributes.get<DType>("dtype");
  if (dtype != context.number()) {
    context.site().bad_attribute("dtype", Diagnosis::kDTypeMismatch,
                                 fmt::format("variables of this job are {}, not {}",
                                             name_of(context.number()), name_of(dtype)));
    return {};
  }
  const Shape shape(context.attributes.get<std::vector<int64_t>>("shape"));
  return context.add_variable("", "initializer", dtype, shape, fans_of(shape));
}

}  // namespace

std::span<const OpDef> variable() {
  static const OpDef kOps[] = {{
      .name = "variable",
      .doc = "A variable: the entry is the variable itself.",
      .formula = "y = W",
      .operands = {},
      .attributes = {{.name = "shape",
                      .type = AttributeType::kIntegers,
                      .fallback = "",
                      .doc = "its extents",
                      .min = 1},
                     {"initializer", AttributeType::kInitializer, "", "how it starts"},
                     {"regularizer", AttributeType::kRegularizer, "none",
                      "what pulls it towards 0"},
                     {"dtype", AttributeType::kDType, "float32", "the float dtype of the job"}},
      .expand = expand_variable,
      .takes_variables = true,
  }};
  return kOps;
}

}  // namespace flow::ops
