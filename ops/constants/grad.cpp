// Layers for constants in job files: a fill with a checked value, the identity matrix, and ranges
// of evenly spaced numbers.
#include <cmath>

#include "compiler/grad/shared_parts.h"
#include "runtime/base/text.h"

namespace flow::grad {
namespace {

/// Expands the user's `constant`, whose value must be representable in its dtype.
ir::ValueId expand_constant(LayerContext& context) {
  if (!is_held_or_infinite(context, "value", context.attributes.get<double>("value"))) return {};
  return context.add("fill", "", {}, context.attributes);
}

/// Builds the diagonal from ones by removing the elements above it, then the elements below it.
ir::ValueId expand_eye(LayerContext& context) {
  const auto extent = [&](const char* name) { return context.attributes.get<int64_t>(name); };
  const ir::Attributes diagonal = {{"diagonal", extent("diagonal")}};
  const ir::ValueId ones = context.fill("ones", 1, {extent("rows"), extent("columns")},
                                        context.attributes.get<DType>("dtype"));
  const ir::ValueId lower = context.add("tril", "tril", {ones}, diagonal);
  return context.add("triu", "", {lower}, diagonal);
}

using ir::ValueId;

ValueId add_spaced(const LayerContext& context, double first, double last, int64_t count) {
  return context.add("evenly_spaced", "", {},
                     {{"first", first},
                      {"last", last},
                      {"count", count},
                      {"dtype", context.attributes.get<DType>("dtype")}});
}

/// Returns the count of numbers before `stop`, or 0 after reporting an error.
int64_t count_of_range(const LayerContext& context) {
  const double start = context.attributes.get<double>("start");
  const double stop = context.attributes.get<double>("stop");
  const double step = context.attributes.get<double>("step");
  const double count = std::ceil((stop - start) / step);
  if (step != 0 && 1 <= count && count <= static_cast<double>(ops::kMaxSize))
    return static_cast<int64_t>(count);
  if (step == 0 || count < 1)
    context.site().bad_attribute(step == 0 ? "step" : "stop", Diagnosis::kBadAttribute,
                                 fmt::format("no number lies between {} and {} with step {}",
                                             shortest(start), shortest(stop), shortest(step)));
  else
    context.site().bad_attribute(
        "stop", Diagnosis::kTensorTooLarge,
        fmt::format("{} numbers; at most {} are supported", shortest(count), ops::kMaxSize));
  return 0;
}

ValueId expand_range(LayerContext& context) {
  const auto dtype = context.attributes.get<DType>("dtype");
  const bool whole = !is_float(dtype);
  const double start = context.attributes.get<double>("start");
  if (!is_held(context, "start", start)) return {};
  const double step = context.attributes.get<double>("step");
  if (whole && std::trunc(step) != step) {
    context.site().bad_attribute(
        "step", Diagnosis::kBadAttribute,
        fmt::format("step {} makes numbers that {} does not hold", shortest(step), name_of(dtype)));
    return {};
  }
  const int64_t count = count_of_range(context);
  if (count == 0) return {};
  const double last = start + static_cast<double>(count - 1) * step;
  if (!is_held(context, "stop", last)) return {};
  return add_spaced(context, start, last, count);
}

ValueId expand_linspace(LayerContext& context) {
  const double start = context.attributes.get<double>("start");
  const double stop = context.attributes.get<double>("stop");
  if (!is_held(context, "start", start) || !is_held(context, "stop", stop)) return {};
  if (!std::isfinite(stop - start)) {
    context.site().bad_attribute("stop", Diagnosis::kBadAttribute,
                                 fmt::format("the distance from {} to {} is not a finite number",
                                             shortest(start), shortest(stop)));
    return {};
  }
  const int64_t num = context.attributes.get<int64_t>("num");
  return add_spaced(context, start, num == 1 ? start : stop, num);
}

}  // namespace

std::vector<Rules> constants() {
  return {{"constant", nullptr, expand_constant},
          {"eye", nullptr, expand_eye},
          {"range", nullptr, expand_range},
          {"linspace", nullptr, expand_linspace}};
}

}  // namespace flow::grad
