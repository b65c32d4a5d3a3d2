// Ranges of job files as evenly spaced numbers.
#include <fmt/format.h>

#include <cmath>

#include "compiler/grad/rules.h"
#include "ops/limits.h"
#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::grad {
namespace {

using ir::ValueId;

/// Is the attribute a number that the dtype holds? Reports it if not.
bool is_held(const LayerContext& context, std::string_view attribute) {
  const double value = context.attributes.get<double>(attribute);
  const auto dtype = context.attributes.get<DType>("dtype");
  if (std::isfinite(value) && can_hold(dtype, value)) return true;
  context.site().bad_attribute(
      attribute, Diagnosis::kBadAttribute,
      fmt::format("cannot store {} as {}", shortest(value), name_of(dtype)));
  return false;
}

ValueId add_spaced(const LayerContext& context, double first, double last, int64_t count) {
  return context.add("evenly_spaced", "", {},
                     {{"first", first},
                      {"last", last},
                      {"count", count},
                      {"dtype", context.attributes.get<DType>("dtype")}});
}

/// How many numbers there are before the end; 0 after an error.
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
  if (!is_held(context, "start")) return {};
  const double start = context.attributes.get<double>("start");
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
  if (can_hold(dtype, last)) return add_spaced(context, start, last, count);
  context.site().bad_attribute(
      "stop", Diagnosis::kBadAttribute,
      fmt::format("cannot store {} as {}", shortest(last), name_of(dtype)));
  return {};
}

ValueId expand_linspace(LayerContext& context) {
  if (!is_held(context, "start") || !is_held(context, "stop")) return {};
  const double start = context.attributes.get<double>("start");
  const int64_t num = context.attributes.get<int64_t>("num");
  return add_spaced(context, start, num == 1 ? start : context.attributes.get<double>("stop"), num);
}

}  // namespace

std::span<const Rules> range() {
  static constexpr Rules kRules[] = {{"range", nullptr, expand_range},
                                     {"linspace", nullptr, expand_linspace}};
  return kRules;
}

}  // namespace flow::grad
