// Elementwise arithmetic: the rows of binary.def, and scale.
#include "ops/core/broadcast.h"
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_arithmetic(Call& call) {
  if (call.same_dtype()) infer_broadcast(call);
}

/// In which operands an op is linear.
enum class Linearity { kNone, kInFirst, kInEach, kInAll };

std::vector<size_t> linear_operands(Linearity linearity) {
  if (linearity == Linearity::kInFirst) return {0};
  if (linearity == Linearity::kInEach) return {0, 1};
  return {};
}

OpSpec arithmetic_spec(std::string_view name, Accepts accepts, Domain domain, Linearity linearity,
                       std::string_view doc, std::string_view formula, std::string_view numpy,
                       std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"a", "any shape", accepts}, {"b", "any shape, same dtype as a", accepts}},
          .infer = infer_arithmetic,
          .in_place = {0, 1},
          .linear = linear_operands(linearity),
          .linear_in_all = linearity == Linearity::kInAll,
          .domain = domain,
          .numpy = numpy,
          .examples = std::move(examples)};
}

OpSpec pow_grad_spec(std::string_view name, std::string_view doc, std::string_view formula) {
  return {
      .name = name,
      .doc = doc,
      .formula = formula,
      .operands = {{"dy", "same shape as the result"}, {"a", "the base"}, {"b", "the exponent"}},
      .infer = infer_broadcast,
      .in_place = {0, 1, 2},
      .linear = {0},
      .internal = true};
}

}  // namespace

std::span<const OpSpec> arithmetic() {
  static const OpSpec kOps[] = {
#define FLOW_ARITHMETIC(op, functor, domain, linearity, doc, formula, numpy, ...)            \
  arithmetic_spec(#op, Accepts::kNumber, Domain::domain, Linearity::linearity, doc, formula, \
                  numpy, {__VA_ARGS__}),
#define FLOW_FLOAT_ARITHMETIC(op, functor, domain, linearity, doc, formula, numpy, ...)            \
  arithmetic_spec(#op, Accepts::kFloat, Domain::domain, Linearity::linearity, doc, formula, numpy, \
                  {__VA_ARGS__}),
#define FLOW_ARITHMETIC_GRAD(op, functor, doc, formula) pow_grad_spec(#op, doc, formula),
#include "ops/arithmetic/binary.def"
      {
          .name = "scale",
          .doc = "Multiplies by a constant.",
          .formula = "y = factor x",
          .operands = {{"x", "any shape"}},
          .attributes = {{"factor", AttributeType::kNumber, "", "the constant factor"}},
          .plan_attributes = {{"factor", Kind::kFinite}},
          .infer = infer_like_operand,
          .in_place = {0},
          .elementwise = true,
          .linear = {0},
          .internal = true,
          .examples = {"scale(f32[3,4]) factor=0.25"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
