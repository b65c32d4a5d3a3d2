// Constants of job files: a fill whose value is checked, and the identity matrix.
#include <fmt/format.h>

#include <cmath>

#include "compiler/grad/rules.h"
#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::grad {
namespace {

/// The user's word for it, whose value must be one of the dtype's.
ir::ValueId expand_constant(LayerContext& context) {
  const double value = context.attributes.get<double>("value");
  const auto dtype = context.attributes.get<DType>("dtype");
  const bool held = std::isfinite(value) ? can_hold(dtype, value) : is_float(dtype);
  // Numbers of the file are doubles: 2^53 may be its neighbour.
  if (held && (is_float(dtype) || std::abs(value) <= kLastExact))
    return context.add("fill", "", {}, context.attributes);
  context.site().bad_attribute(
      "value", Diagnosis::kBadAttribute,
      fmt::format("cannot store {} {}as {}", shortest(value),
                  !is_float(dtype) && std::abs(value) > kLastExact ? "exactly " : "",
                  name_of(dtype)));
  return {};
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
