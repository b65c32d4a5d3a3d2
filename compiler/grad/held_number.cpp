// Numbers of job files that become elements.
#include "compiler/grad/held_number.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::grad {

bool is_held(const LayerContext& context, std::string_view attribute, double value) {
  const auto dtype = context.attributes.get<DType>("dtype");
  const bool exact = is_float(dtype) || std::abs(value) <= kLastExact;
  if (std::isfinite(value) && can_hold(dtype, value) && exact) return true;
  context.site().bad_attribute(attribute, Diagnosis::kBadAttribute,
                               fmt::format("cannot store {} {}as {}", shortest(value),
                                           exact ? "" : "exactly ", name_of(dtype)));
  return false;
}

bool is_held_or_infinite(const LayerContext& context, std::string_view attribute, double value) {
  const bool is_number = std::isfinite(value) || !is_float(context.attributes.get<DType>("dtype"));
  return !is_number || is_held(context, attribute, value);
}

}  // namespace flow::grad
