// Checks of a call's operands and attributes against the record of its op.
#include "ops/core/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/names.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

bool all_between(const Integers& values, int64_t low, int64_t high) {
  return std::ranges::all_of(values, [=](int64_t v) { return low <= v && v <= high; });
}

bool is_finite_between(const double* number, double low, double high) {
  return number && std::isfinite(*number) && low <= *number && *number <= high;
}

bool is_shape(const Integers& extents) {
  return extents.size() <= size_t{kMaxRank} &&
         all_between(extents, 1, std::numeric_limits<int64_t>::max()) &&
         Shape(extents).checked_elements();
}

bool is_list_of_kind(const Integers& list, Kind kind) {
  switch (kind) {
    case Kind::kAxes:
      return all_between(list, 0, kMaxRank - 1) &&
             std::ranges::adjacent_find(list, std::greater_equal<>()) == list.end();
    case Kind::kSizes:
      return list.size() == 2 && all_between(list, 1, kMaxSize);
    case Kind::kPads:
      return list.size() == 4 && all_between(list, 0, kMaxSize);
    case Kind::kPairs:
      return list.size() <= 2 * size_t{kMaxRank} && all_between(list, 0, kMaxSize);
    case Kind::kIntegers:
      return list.size() <= size_t{kMaxRank};
    case Kind::kParts:
      return !list.empty() && all_between(list, 1, kMaxSize);
    case Kind::kShape:
      return is_shape(list);
    default:
      return false;
  }
}

bool is_of_kind(const Attribute& value, Kind kind, const AttributeSpec* spec) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const auto* integer = std::get_if<int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  const auto* text = std::get_if<std::string>(&value);
  switch (kind) {
    case Kind::kFlag:
      return std::holds_alternative<bool>(value);
    case Kind::kDType:
      return std::holds_alternative<DType>(value);
    case Kind::kText:
      return text && is_safe_name(*text);
    case Kind::kChoice:
      return text && spec &&
             std::ranges::find(spec->choices, std::string_view(*text)) != spec->choices.end();
    case Kind::kAxis:
      return integer && 0 <= *integer && *integer < kMaxRank;
    case Kind::kCount:
      return integer && 1 <= *integer && *integer <= kMaxSize;
    case Kind::kOffset:
      return integer && -kMaxSize <= *integer && *integer <= kMaxSize;
    case Kind::kValue:
      return number != nullptr;
    case Kind::kFinite:
      return is_finite_between(number, -kLargest, kLargest);
    case Kind::kMagnitude:
      return is_finite_between(number, 0, kLargest);
    case Kind::kFraction:
      return number && 0 <= *number && *number < 1;
    default: {
      const auto* list = std::get_if<Integers>(&value);
      return list && is_list_of_kind(*list, kind);
    }
  }
}

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"flag",
                                         "dtype",
                                         "name",
                                         "choice",
                                         "axis",
                                         "list of axes",
                                         "count",
                                         "offset",
                                         "number",
                                         "number",
                                         "magnitude",
                                         "fraction",
                                         "size",
                                         "padding",
                                         "list of paddings",
                                         "list of integers",
                                         "list of counts",
                                         "shape"};
  return kNames[static_cast<size_t>(kind)];
}

void check_operands(const OpSpec& spec, Call& call) {
  const size_t given = call.operands();
  const size_t most = spec.operands.size() - static_cast<size_t>(std::ranges::count(
                                                 spec.operands, true, &OperandSpec::layer_only));
  const auto least =
      static_cast<size_t>(std::ranges::count(spec.operands, false, &OperandSpec::optional));
  const bool variadic = most > 0 && spec.operands.back().variadic;
  if (given < least || (given > most && !variadic)) {
    const std::string upper = variadic       ? " or more"
                              : least < most ? fmt::format(" to {}", most)
                                             : std::string();
    call.bad_call(Reason::kOperandCount,
                  fmt::format("{} operands; {} takes {}{}", given, spec.name, least, upper));
    return;
  }
  const OperandSpec* before = nullptr;
  for (size_t i = 0; i < given; ++i) {
    const OperandSpec& operand = spec.operand(i, call.dtype(i));
    if (spec.optional_by_dtype && before && &operand <= before) {
      call.bad_operand(i, Reason::kOperandCount,
                       fmt::format("operand {} of {} cannot be `{}`, which comes before `{}`", i,
                                   spec.name, operand.name, before->name));
      return;
    }
    before = &operand;
    if (accepts(operand, call.dtype(i), call.job())) continue;
    call.bad_operand(
        i, Reason::kDTypeMismatch,
        fmt::format("operand `{}` of {} is {} in a job of {}; expected {}", operand.name, spec.name,
                    name_of(call.dtype(i)), name_of(call.compute_dtype()),
                    expected_dtypes(operand.accepts, call.compute_dtype())));
  }
}

}  // namespace

bool accepts(const OperandSpec& operand, DType dtype, const JobTypes& job) {
  const bool compute = dtype == job.compute;
  switch (operand.accepts) {
    case Accepts::kAny:
      return true;
    case Accepts::kFloat:
      return compute || (operand.low_precision && dtype == job.low_precision);
    case Accepts::kInteger:
      return is_integer(dtype);
    case Accepts::kBool:
      return dtype == DType::kBool;
    case Accepts::kNumber:
      return compute || is_integer(dtype);
  }
  return false;
}

std::string expected_dtypes(Accepts accepts, DType compute) {
  if (accepts == Accepts::kInteger) return "an integer dtype";
  if (accepts == Accepts::kBool) return "bool";
  if (accepts == Accepts::kNumber) return fmt::format("{} or an integer dtype", name_of(compute));
  return std::string(name_of(compute));
}

void check_attributes(const OpSpec& spec, Call& call) {
  for (const PlanAttribute& expected : spec.plan_attributes) {
    const std::string_view name = expected.name;
    const Attribute* value = call.attributes().find(name);
    if (!value && expected.optional) continue;
    if (!value)
      call.bad_call(Reason::kMissingAttribute,
                    fmt::format("{}: missing attribute `{}`", spec.name, name));
    else if (!is_of_kind(*value, expected.kind, spec.attribute(name)))
      call.bad_attribute(name, Reason::kBadAttribute,
                         fmt::format("attribute `{}` of {} is not a valid {}", name, spec.name,
                                     name_of(expected.kind)));
  }
  for (const auto& [name, value] : call.attributes())
    if (std::ranges::find(spec.plan_attributes, std::string_view(name), &PlanAttribute::name) ==
        spec.plan_attributes.end())
      call.bad_call(Reason::kBadAttribute,
                    fmt::format("{}: unknown attribute `{}`", spec.name, name));
}

void check_types(const OpSpec& spec, Call& call) {
  check_operands(spec, call);
  check_attributes(spec, call);
}

}  // namespace flow::ops
