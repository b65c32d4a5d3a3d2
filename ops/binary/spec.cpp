// The records of elementwise ops of two operands: the rows of binary.def, `scale`, the logical ops,
// and `where`.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_arithmetic(Call& call) {
  if (call.same_dtype()) infer_broadcast(call);
}

/// The operands in which an op is linear.
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

void refuse_dtype(Call& call, DType dtype, std::string_view why, std::string_view hint) {
  call.bad_operand(0, Reason::kDTypeMismatch,
                   fmt::format("the operands are {}, which {}", name_of(dtype), why))
      .with_hint(std::string(hint));
}

/// The shape function of ops that take two integers of any dtypes, or two operands of the same
/// dtype.
void infer_equality(Call& call) {
  const DType a = call.dtype(0), b = call.dtype(1);
  if (a == DType::kFloat16 || a == DType::kBFloat16)
    refuse_dtype(call, a, "cannot be compared", "convert with `{op: cast, dtype: float32}`");
  else if ((is_integer(a) && is_integer(b)) || call.same_dtype())
    infer_broadcast(call, DType::kBool);
}

void infer_order(Call& call) {
  if (const DType a = call.dtype(0); a == DType::kBool)
    refuse_dtype(call, a, "has no order", "use `equal` or `not_equal` for bools");
  else
    infer_equality(call);
}

void infer_logical(Call& call) { infer_broadcast(call, DType::kBool); }

void infer_where(Call& call) {
  const DType x = call.dtype(1), y = call.dtype(2);
  if (x == y)
    infer_broadcast(call, x);
  else
    call.bad_operand(
            2, Reason::kDTypeMismatch,
            fmt::format("`x` is {} and `y` is {}; expected one dtype", name_of(x), name_of(y)))
        .with_hint(fmt::format("convert with `{{op: cast, dtype: {}}}`", name_of(x)));
}

OpSpec comparison_of(std::string_view name, Accepts accepts, InferRule infer, std::string_view doc,
                     std::string_view formula, std::string_view numpy,
                     std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"a", "any shape", accepts}, {"b", "any shape", accepts}},
          .infer = infer,
          .in_place = {0, 1},
          .numpy = numpy,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpSpec> binary() {
  return {
#define FLOW_ARITHMETIC(op, functor, domain, linearity, doc, formula, numpy, ...)            \
  arithmetic_spec(#op, Accepts::kNumber, Domain::domain, Linearity::linearity, doc, formula, \
                  numpy, {__VA_ARGS__}),
#define FLOW_FLOAT_ARITHMETIC(op, functor, domain, linearity, doc, formula, numpy, ...)            \
  arithmetic_spec(#op, Accepts::kFloat, Domain::domain, Linearity::linearity, doc, formula, numpy, \
                  {__VA_ARGS__}),
#define FLOW_ARITHMETIC_GRAD(op, functor, doc, formula) pow_grad_spec(#op, doc, formula),
#include "ops/binary/binary.def"
      {.name = "scale",
       .doc = "Multiplies by a constant.",
       .formula = "y = factor x",
       .operands = {{"x", "any shape"}},
       .attributes = {{"factor", AttributeType::kNumber, "", "the constant factor"}},
       .infer = infer_like_operand,
       .in_place = {0},
       .elementwise = true,
       .linear = {0},
       .internal = true,
       .examples = {"scale(f32[3,4]) factor=0.25"}},
#define FLOW_COMPARISON(op, functor, infer, doc, formula, numpy, ...) \
  comparison_of(#op, Accepts::kAny, infer, doc, formula, numpy, {__VA_ARGS__}),
#define FLOW_LOGICAL(op, functor, doc, formula, numpy, ...) \
  comparison_of(#op, Accepts::kBool, infer_logical, doc, formula, numpy, {__VA_ARGS__}),
#include "ops/binary/binary.def"
      {.name = "logical_not",
       .doc = "True where the operand is false.",
       .formula = "y = not x",
       .operands = {{"in", "any shape", Accepts::kBool}},
       .infer = infer_like_operand,
       .in_place = {0},
       .elementwise = true,
       .numpy = "~x",
       .examples = {"logical_not(bool[3,4])"}},
      {.name = "where",
       .doc = "Selects x where the condition is true and y elsewhere; shapes broadcast.",
       .formula = "out = condition ? x : y",
       .operands = {{"condition", "any shape", Accepts::kBool},
                    {"x", "any shape", Accepts::kAny},
                    {"y", "any shape, same dtype as x", Accepts::kAny}},
       .infer = infer_where,
       .in_place = {1, 2},
       .numpy = "np.where(condition, x, y)",
       .examples = {"where(bool[3,4], f32[3,4], f32[3,4])", "where(bool[3,1], f32[4], f32[])",
                    "where(bool[], f32[2,1,4], f32[3,1])", "where(bool[5], i64[5], i64[])",
                    "where(bool[5], u8[5], u8[5])"}},
  };
}

}  // namespace flow::ops
