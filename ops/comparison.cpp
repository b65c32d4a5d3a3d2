// Elementwise comparisons, what connects their results, and the choice by them.
#include <fmt/format.h>

#include "ops/broadcast.h"
#include "ops/families.h"

namespace flow::ops {
namespace {

void refuse_dtype(Call& call, DType dtype, std::string_view why, std::string_view hint) {
  call.bad_operand(0, Reason::kDTypeMismatch,
                   fmt::format("the operands are {}, which {}", name_of(dtype), why))
      .with_hint(std::string(hint));
}

/// Two integers of any dtypes, or two operands of one.
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

OpSpec comparison_of(std::string_view name, std::string_view doc, std::string_view formula,
                     InferRule infer, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"a", "any shape", Accepts::kAny}, {"b", "any shape", Accepts::kAny}},
          .infer = infer,
          .in_place = {0, 1},
          .examples = std::move(examples)};
}

OpSpec logical(std::string_view name, std::string_view doc, std::string_view formula,
               std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"a", "any shape", Accepts::kBool}, {"b", "any shape", Accepts::kBool}},
          .infer = infer_logical,
          .in_place = {0, 1},
          .examples = std::move(examples)};
}

}  // namespace

std::span<const OpSpec> comparison() {
  static const OpSpec kOps[] = {
      comparison_of(
          "equal", "True where a and b are equal; shapes broadcast, and integer dtypes can differ.",
          "y = (a == b)", infer_equality,
          {"equal(i32[4], i64[4])", "equal(u8[3,4], i8[4])", "equal(i64[7], i64[7])",
           "equal(f32[3,4], f32[3,4])", "equal(bool[5], bool[5])", "equal(i32[3,1], i32[4])"}),
      comparison_of("not_equal", "True where a and b differ; same rules as `equal`.",
                    "y = (a != b)", infer_equality,
                    {"not_equal(i32[4], i64[4])", "not_equal(bool[5], bool[5])"}),
      comparison_of(
          "greater",
          "True where a is greater than b; shapes broadcast, and integer dtypes can differ.",
          "y = (a > b)", infer_order, {"greater(f32[3,4], f32[4])", "greater(u8[4], i64[4])"}),
      comparison_of("greater_equal",
                    "True where a is greater than or equal to b; same rules as `greater`.",
                    "y = (a >= b)", infer_order,
                    {"greater_equal(f32[3,4], f32[4])", "greater_equal(i8[4], u8[4])"}),
      comparison_of("less", "True where a is less than b; same rules as `greater`.", "y = (a < b)",
                    infer_order, {"less(f32[3,4], f32[4])", "less(i32[4], i8[])"}),
      comparison_of("less_equal",
                    "True where a is less than or equal to b; same rules as `greater`.",
                    "y = (a <= b)", infer_order,
                    {"less_equal(f32[3,4], f32[4])", "less_equal(i64[4], i64[4])"}),
      logical("logical_and", "True where both operands are true; shapes broadcast.",
              "y = (a and b)", {"logical_and(bool[3,4], bool[4])"}),
      logical("logical_or", "True where at least one operand is true; shapes broadcast.",
              "y = (a or b)", {"logical_or(bool[3,4], bool[4])"}),
      {
          .name = "logical_not",
          .doc = "True where the operand is false.",
          .formula = "y = not x",
          .operands = {{"in", "any shape", Accepts::kBool}},
          .infer = infer_like_operand,
          .in_place = {0},
          .elementwise = true,
          .examples = {"logical_not(bool[3,4])"},
      },
      {
          .name = "where",
          .doc = "Selects x where the condition is true and y elsewhere; shapes broadcast.",
          .formula = "out = condition ? x : y",
          .operands = {{"condition", "any shape", Accepts::kBool},
                       {"x", "any shape", Accepts::kAny},
                       {"y", "any shape, same dtype as x", Accepts::kAny}},
          .infer = infer_where,
          .in_place = {1, 2},
          .examples = {"where(bool[3,4], f32[3,4], f32[3,4])", "where(bool[3,1], f32[4], f32[])",
                       "where(bool[], f32[2,1,4], f32[3,1])", "where(bool[5], i64[5], i64[])",
                       "where(bool[5], u8[5], u8[5])"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
