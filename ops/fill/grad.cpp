// Constants of job files: a fill whose value is checked, and the identity matrix.
#include "compiler/grad/held_number.h"

namespace flow::grad {
namespace {

/// The user's word for it, whose value must be one of the dtype's.
ir::ValueId expand_constant(LayerContext& context) {
  if (!is_held_or_infinite(context, "value", context.attributes.get<double>("value"))) return {};
  return context.add("fill", "", {}, context.attributes);
}

/// Ones without those above the diagonal, then without those below.
ir::ValueId expand_eye(LayerContext& context) {
  const auto extent = [&](const char* name) { return context.attributes.get<int64_t>(name); };
  const ir::Attributes diagonal = {{"diagonal", extent("diagonal")}};
  const ir::ValueId ones =
      context.add("fill", "ones", {},
                  {{"value", 1.0},
                   {"shape", std::vector<int64_t>{extent("rows"), extent("columns")}},
                   {"dtype", context.attributes.get<DType>("dtype")}});
  const ir::ValueId lower = context.add("tril", "tril", {ones}, diagonal);
  return context.add("triu", "", {lower}, diagonal);
}

}  // namespace

std::span<const Rules> fill() {
  static constexpr Rules kRules[] = {{"constant", nullptr, expand_constant},
                                     {"eye", nullptr, expand_eye}};
  return kRules;
}

}  // namespace flow::grad
