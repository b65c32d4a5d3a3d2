// The table of signatures, and the checks that need no shape rule.
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "ops/check.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/signature.h"

namespace flow::plan {
namespace {

using Integers = std::vector<int64_t>;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<Signature::Part> parts_of(std::string_view text) {
  std::vector<Signature::Part> parts;
  for (const std::string_view word : words_of(text)) {
    const size_t colon = word.find(':');
    Signature::Part part{word.substr(0, colon), word.substr(colon + 1)};
    part.optional = part.kind.ends_with('?');
    part.variadic = part.kind.ends_with('*');
    if (part.optional || part.variadic) part.kind.remove_suffix(1);
    parts.push_back(part);
  }
  return parts;
}

bool all_between(const Integers& values, int64_t low, int64_t high) {
  return std::ranges::all_of(values, [=](int64_t v) { return low <= v && v <= high; });
}

/// Is the value of the kind that signatures.def says, and in its range?
bool is_of_kind(const Attribute& value, std::string_view kind) {
  const auto* integer = std::get_if<int64_t>(&value);
  const auto* number = std::get_if<double>(&value);
  const auto* list = std::get_if<Integers>(&value);
  const auto* text = std::get_if<std::string>(&value);
  if (kind == "flag") return std::holds_alternative<bool>(value);
  if (kind == "dtype") return std::holds_alternative<DType>(value);
  if (kind == "text") return text && is_safe_name(*text);
  if (kind == "approximation") return text && (*text == "none" || *text == "tanh");
  if (kind == "axis") return integer && 0 <= *integer && *integer < kMaxRank;
  if (kind == "count") return integer && 1 <= *integer && *integer <= kMostSize;
  if (kind == "offset") return integer && -kMostSize <= *integer && *integer <= kMostSize;
  if (kind == "value") return number != nullptr;
  if (kind == "number") return number && std::isfinite(*number);
  if (kind == "magnitude") return number && std::isfinite(*number) && *number >= 0;
  if (kind == "fraction") return number && 0 <= *number && *number < 1;
  if (kind == "sizes") return list && list->size() == 2 && all_between(*list, 1, kMostSize);
  if (kind == "pads") return list && list->size() == 4 && all_between(*list, 0, kMostSize);
  if (kind == "integers") return list && list->size() <= size_t{kMaxRank};
  if (kind == "parts") return list && !list->empty() && all_between(*list, 1, kMostSize);
  if (kind == "pairs")
    return list && list->size() <= 2 * size_t{kMaxRank} && all_between(*list, 0, kMostSize);
  if (kind == "axes")
    return list && all_between(*list, 0, kMaxRank - 1) &&
           std::ranges::adjacent_find(*list, std::greater_equal<>()) == list->end();
  FLOW_CHECK(kind == "shape", "attributes of kind {}", kind);
  return list && list->size() <= size_t{kMaxRank} &&
         all_between(*list, 1, std::numeric_limits<int64_t>::max()) &&
         Shape(*list).checked_elements();
}

bool is_of_kind(DType dtype, std::string_view kind, const Call& call) {
  const DType number = call.number();
  if (kind == "number") return dtype == number;
  if (kind == "narrow") return dtype == number || dtype == call.narrow();
  if (kind == "arithmetic") return dtype == number || is_integer(dtype);
  if (kind == "integer") return is_integer(dtype);
  if (kind == "bool") return dtype == DType::kBool;
  FLOW_CHECK(kind == "any", "operands of kind {}", kind);
  return true;
}

void check_operands(const Signature& signature, const Call& call) {
  const size_t given = call.operands().size(), most = signature.operands.size();
  const auto least = static_cast<size_t>(
      std::ranges::count(signature.operands, false, &Signature::Part::optional));
  const bool variadic = most > 0 && signature.operands.back().variadic;
  call.require(least <= given && (given <= most || variadic), "{} operands; {} takes {}{}", given,
               signature.op, least,
               variadic       ? " or more"
               : least < most ? fmt::format(" to {}", most)
                              : std::string());
  for (size_t i = 0; i < given; ++i) {
    const Signature::Part& part = signature.operand(i);
    const std::string_view name = part.name, kind = part.kind;
    call.require(is_of_kind(call.dtype(i), kind, call),
                 "operand `{}` of {} is {} in a job of {}; expected {}", name, signature.op,
                 name_of(call.dtype(i)), name_of(call.number()),
                 kind == "number" || kind == "narrow" ? name_of(call.number()) : kind);
  }
}

void check_attributes(const Signature& signature, const Call& call) {
  for (const Signature::Part& part : signature.attributes) {
    const std::string_view name = part.name, kind = part.kind;
    const Attribute* value = call.attributes().find(name);
    call.require(value, "{}: missing attribute `{}`", signature.op, name);
    call.require(is_of_kind(*value, kind), "attribute `{}` of {} is not a valid {}", name,
                 signature.op, kind);
  }
  for (const auto& [name, value] : call.attributes())
    call.require(std::ranges::find(signature.attributes, name, &Signature::Part::name) !=
                     signature.attributes.end(),
                 "{}: unknown attribute `{}`", signature.op, name);
}

std::string_view kept(std::string text) {
  static std::deque<std::string> texts;
  return texts.emplace_back(std::move(text));
}

std::string_view kind_of(const ops::OperandSpec& operand) {
  constexpr std::string_view kKinds[] = {"any", "number", "integer", "bool", "arithmetic"};
  return operand.low_precision ? "narrow" : kKinds[static_cast<size_t>(operand.accepts)];
}

/// What the rest of the plan check, lowering and backends ask of a record.
Signature signature_of(const ops::OpSpec& spec) {
  Signature signature;
  signature.op = spec.name;
  signature.spec = &spec;
  for (const ops::OperandSpec& operand : spec.operands)
    signature.operands.push_back(
        {operand.name, kind_of(operand), operand.optional, operand.variadic});
  for (const ops::ResultSpec& result : spec.results) {
    std::string name(result.name);
    if (result.updates) name = fmt::format("next_{}", spec.operands[*result.updates].name);
    signature.results.push_back(kept(fmt::format("{}{}", name,
                                                 result.optional   ? "?"
                                                 : result.variadic ? "*"
                                                                   : "")));
  }
  std::string in_place;
  for (const size_t i : spec.in_place) in_place += fmt::format("{} ", spec.operands[i].name);
  signature.in_place = kept(std::move(in_place));
  return signature;
}

}  // namespace

int Call::axis() const {
  const auto axis = attribute<int64_t>("axis");
  require(axis < shape(0).rank(), "axis {} is out of range for {}", axis, shape(0).str());
  return static_cast<int>(axis);
}

void Call::require_same_dtypes() const {
  for (size_t i = 1; i < operands_.size(); ++i)
    require(dtype(i) == dtype(0), "operands have different dtypes {} and {}", name_of(dtype(0)),
            name_of(dtype(i)));
}

void Call::require_same_shapes(size_t end) const {
  for (size_t i = 1; i < end; ++i)
    require(shape(i) == shape(0), "operands have different shapes {} and {}", shape(0).str(),
            shape(i).str());
}

void Call::require_shapes(size_t first, size_t end, const Shape& expected) const {
  for (size_t i = first; i < end; ++i)
    require(shape(i) == expected, "operand {} is {}; expected {}", i, shape(i).str(),
            expected.str());
}

bool Signature::may_be_absent(size_t i) const {
  const std::string_view result = results[std::min(i, results.size() - 1)];
  return result.ends_with('?') || (i > 0 && result.ends_with('*'));
}

std::optional<size_t> Signature::updated_operand(size_t i) const {
  constexpr std::string_view kNext = "next_";
  if (i >= results.size() || !results[i].starts_with(kNext)) return {};
  const auto operand = std::ranges::find(operands, results[i].substr(kNext.size()), &Part::name);
  FLOW_CHECK(operand != operands.end(), "{} has no operand for {}", op, results[i]);
  return static_cast<size_t>(operand - operands.begin());
}

bool Signature::may_overwrite(size_t i) const {
  const auto names = words_of(in_place);
  return i < operands.size() && !operands[i].variadic &&
         std::ranges::find(names, operands[i].name) != names.end();
}

std::span<const Signature> all_signatures() {
  static const std::vector<Signature> kAll = [] {
    std::vector<Signature> all;
    for (const ops::OpSpec* spec : ops::all_specs())
      if (spec->infer) all.push_back(signature_of(*spec));
#define FLOW_SIGNATURE(op, operands, results, attributes, in_place, rule) \
  all.push_back(                                                          \
      {#op, parts_of(operands), parts_of(attributes), words_of(results), in_place, rules::rule});
#include "runtime/plan/signatures.def"
#undef FLOW_SIGNATURE
    return all;
  }();
  return kAll;
}

const Signature* find_signature(std::string_view op) {
  const auto all = all_signatures();
  const auto found = std::ranges::find(all, op, &Signature::op);
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::pair<DType, Shape>> check_spec(const ops::OpSpec& spec, const Call& call) {
  std::vector<ops::Operand> operands;
  for (const Tensor* tensor : call.operands())
    operands.push_back({tensor->dtype, tensor->shape, tensor->rows});
  const ops::JobTypes job{.compute = call.number(), .low_precision = call.narrow()};
  ops::Call typed(std::move(operands), call.attributes(), job);
  ops::check_types(spec, typed);
  if (!typed.failed()) spec.infer(typed);
  if (typed.failed()) call.site().refuse(typed.refusals().front().text);
  std::vector<std::pair<DType, Shape>> results;
  for (const ops::Result& result : typed.results())
    results.emplace_back(result.dtype, result.shape);
  return results;
}

std::vector<std::pair<DType, Shape>> check_call(const Signature& signature, Call call) {
  if (signature.spec) return check_spec(*signature.spec, call);
  check_operands(signature, call);
  check_attributes(signature, call);
  signature.rule(call);
  return call.results();
}

}  // namespace flow::plan
