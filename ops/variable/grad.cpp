// Expansion of an entry that declares a variable.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

ir::ValueId expand_variable(LayerContext& context) {
  const auto dtype = context.attributes.get<DType>("dtype");
  if (dtype != context.compute_dtype()) {
    context.site().bad_attribute(
        "dtype", Diagnosis::kDTypeMismatch,
        fmt::format("`dtype` is {}; expected {}, the float dtype of the job", name_of(dtype),
                    name_of(context.compute_dtype())));
    return {};
  }
  const Shape shape(context.attributes.get<std::vector<int64_t>>("shape"));
  return context.add_variable("", "initializer", dtype, shape, fans_of(shape));
}

}  // namespace

std::vector<Rules> variable() { return {{"variable", nullptr, expand_variable}}; }

}  // namespace flow::grad
