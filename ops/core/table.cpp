// The table of records, assembled from the families.
#include <algorithm>
#include <map>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Returns true if an operand of this type takes values of that dtype, regardless of the job's
/// dtype.
bool is_of_kind(DType dtype, Accepts accepts) {
  if (accepts == Accepts::kFloat) return is_float(dtype);
  if (accepts == Accepts::kInteger) return is_integer(dtype);
  return accepts == Accepts::kBool && dtype == DType::kBool;
}

/// Returns the kind of value that plans contain for an attribute.
Kind kind_of(const AttributeSpec& attribute) {
  const auto at_least = [&](double least) { return attribute.min && *attribute.min >= least; };
  if (attribute.kind) return *attribute.kind;
  switch (attribute.type) {
    case AttributeType::kBool:
      return Kind::kFlag;
    case AttributeType::kInteger:
      return at_least(1) ? Kind::kCount : Kind::kOffset;
    case AttributeType::kNumber:
      if (attribute.below) return Kind::kFraction;
      return at_least(0) ? Kind::kMagnitude : Kind::kFinite;
    case AttributeType::kText:
      return Kind::kChoice;
    case AttributeType::kIntegers:
      if (attribute.max) return Kind::kSizes;
      return attribute.min ? Kind::kShape : Kind::kIntegers;
    case AttributeType::kPairs:
      return Kind::kPairs;
    case AttributeType::kDType:
      return Kind::kDType;
    case AttributeType::kPadding:
      return Kind::kPads;
    default:
      return Kind::kUnplanned;
  }
}

/// Returns the record with the plan attributes filled in. Layers are returned unchanged, because no
/// plan contains them.
OpSpec completed(OpSpec spec) {
  if (!spec.infer) return spec;
  std::vector<PlanAttribute>& in_plans = spec.plan_attributes;
  for (const AttributeSpec& attribute : spec.attributes) {
    const Kind kind = kind_of(attribute);
    if (kind == Kind::kUnplanned ||
        std::ranges::count(in_plans, attribute.name, &PlanAttribute::name) > 0)
      continue;
    const bool optional = attribute.type == AttributeType::kInteger && attribute.fallback == "none";
    in_plans.push_back({.name = attribute.name, .kind = kind, .optional = optional});
  }
  return spec;
}

}  // namespace

const AttributeSpec* OpSpec::attribute(std::string_view attribute_name) const {
  const auto found = std::ranges::find(attributes, attribute_name, &AttributeSpec::name);
  return found == attributes.end() ? nullptr : &*found;
}

const OperandSpec& OpSpec::operand(size_t i) const {
  return operands[std::min(i, operands.size() - 1)];
}

const OperandSpec& OpSpec::operand(size_t i, DType dtype) const {
  if (optional_by_dtype && i < operands.size() && operands[i].optional)
    for (const OperandSpec& spec : operands)
      if (spec.optional && is_of_kind(dtype, spec.accepts)) return spec;
  return operand(i);
}

const ResultSpec& OpSpec::result(size_t i) const {
  return results[std::min(i, results.size() - 1)];
}

std::string OpSpec::result_name(size_t i) const {
  const ResultSpec& spec = result(i);
  return std::string(spec.name) + (spec.variadic ? std::to_string(i) : std::string());
}

bool OpSpec::may_be_absent(size_t i) const {
  return result(i).optional || (i > 0 && result(i).variadic);
}

bool OpSpec::may_overwrite(size_t i) const {
  return std::ranges::find(in_place, i) != in_place.end();
}

bool OpSpec::can_take(Epilogue other) const {
  return std::ranges::find(takes, other) != takes.end();
}

bool OpSpec::convolves() const {
  const auto is_filters = [](const auto& one) { return one.images == Images::kFilters; };
  return std::ranges::any_of(operands, is_filters) || std::ranges::any_of(results, is_filters);
}

bool OpSpec::runs_once() const {
  return for_updates || moves_statistics() || (!results.empty() && results[0].updates);
}

bool rounds_always(const Attributes&) { return true; }

std::span<const OpSpec* const> all_specs() {
  static const std::vector<OpSpec> kSpecs = [] {
    std::vector<OpSpec> all;
    for (const auto family : {
#define FLOW_FAMILY(family) family,
#include "ops/families.def"
         })
      for (OpSpec& spec : family()) all.push_back(completed(std::move(spec)));
    return all;
  }();
  static const std::vector<const OpSpec*> kAll = [] {
    std::vector<const OpSpec*> all;
    for (const OpSpec& spec : kSpecs) all.push_back(&spec);
    return all;
  }();
  return kAll;
}

const OpSpec* find_spec(std::string_view name) {
  static const std::map<std::string_view, const OpSpec*> kByName = [] {
    std::map<std::string_view, const OpSpec*> by_name;
    for (const OpSpec* spec : all_specs()) by_name.emplace(spec->name, spec);
    return by_name;
  }();
  const auto found = kByName.find(name);
  return found == kByName.end() ? nullptr : found->second;
}

std::vector<const OpSpec*> written_specs() {
  std::vector<const OpSpec*> specs;
  for (const OpSpec* spec : all_specs())
    if (!spec->internal) specs.push_back(spec);
  return specs;
}

const OpSpec* find_written_spec(std::string_view name) {
  const OpSpec* spec = find_spec(name);
  return spec && !spec->internal ? spec : nullptr;
}

}  // namespace flow::ops
