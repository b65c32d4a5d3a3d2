// Elementwise arithmetic.
#include "ops/broadcast.h"
#include "ops/families.h"

namespace flow::ops {
namespace {

void infer_arithmetic(Call& call) {
  if (call.same_dtype()) infer_broadcast(call);
}

OpSpec arithmetic_spec(std::string_view name, std::string_view doc, std::string_view formula,
                       Accepts accepts, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"a", "any shape", accepts}, {"b", "any shape, same dtype as a", accepts}},
          .infer = infer_arithmetic,
          .in_place = {0, 1},
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
      .internal = true};
}

}  // namespace

std::span<const OpSpec> arithmetic() {
  static const OpSpec kOps[] = {
      arithmetic_spec(
          "add", "Adds elementwise; shapes broadcast, integers wrap around.", "y = a + b",
          Accepts::kNumber,
          {"add(f32[3,4], f32[3,4])", "add(f32[2,3,4], f32[3,1])", "add(f32[1,4], f32[3,1])",
           "add(f32[3], f32[])", "add(i32[3,4], i32[4])", "add(u8[5], u8[5])"}),
      arithmetic_spec(
          "subtract", "Subtracts elementwise; shapes broadcast, integers wrap around.", "y = a - b",
          Accepts::kNumber,
          {"subtract(f32[3,4], f32[3,4])", "subtract(f32[4], f32[3,1])", "subtract(u8[5], u8[5])"}),
      arithmetic_spec("multiply", "Multiplies elementwise; shapes broadcast, integers wrap around.",
                      "y = a b", Accepts::kNumber,
                      {"multiply(f32[3,4], f32[3,4])", "multiply(f32[2,3,4], f32[3,1])",
                       "multiply(f32[1,4], f32[3,1])", "multiply(f32[3], f32[])",
                       "multiply(i64[3,4], i64[4])", "multiply(i8[5], i8[5])"}),
      arithmetic_spec(
          "divide", "Divides floats elementwise; shapes broadcast.", "y = a / b", Accepts::kFloat,
          {"divide(f32[3,4], f32[3,4])", "divide(f32[4], f32[3,1])", "divide(f32[], f32[3])"}),
      arithmetic_spec(
          "pow",
          "Raises a to the power b elementwise; shapes broadcast. Integers wrap around; a "
          "negative integer exponent gives 0, except for the bases 1 and -1.",
          "y = a^b", Accepts::kNumber,
          {"pow(f32[3,4], f32[3,4])", "pow(f32[3,4], f32[])", "pow(f32[4], f32[3,1])",
           "pow(i32[5], i32[5])"}),
      pow_grad_spec("pow_grad_base", "Gradient of pow with respect to the base.",
                    "da = dy b a^(b-1)"),
      pow_grad_spec("pow_grad_exponent", "Gradient of pow with respect to the exponent.",
                    "db = dy a^b ln a"),
      arithmetic_spec(
          "maximum",
          "Elementwise maximum; shapes broadcast. NaN if either operand is NaN; on ties, the "
          "first operand receives the gradient.",
          "y = max(a, b)", Accepts::kNumber,
          {"maximum(f32[3,4], f32[3,4])", "maximum(f32[4], f32[3,1])", "maximum(i8[5], i8[])"}),
      arithmetic_spec(
          "minimum",
          "Elementwise minimum; shapes broadcast. NaN if either operand is NaN; on ties, the "
          "first operand receives the gradient.",
          "y = min(a, b)", Accepts::kNumber,
          {"minimum(f32[3,4], f32[3,4])", "minimum(f32[4], f32[3,1])", "minimum(i8[5], i8[])"}),
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
          .internal = true,
          .examples = {"scale(f32[3,4]) factor=0.25"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
