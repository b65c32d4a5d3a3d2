// Elementwise comparisons.
#include <fmt/format.h>

#include "compiler/ops/broadcast.h"
#include "compiler/ops/families.h"

namespace flow::ops {
namespace {

/// Two integers of any dtypes, or two operands of one.
void infer_equal(Inference& inference) {
  const DType a = inference.operand(0).dtype, b = inference.operand(1).dtype;
  const bool stored = a == DType::kFloat16 || a == DType::kBFloat16;
  if (stored)
    inference
        .bad_operand(0, Diagnosis::kDTypeMismatch,
                     fmt::format("the operands are {}, which is not compared", name_of(a)))
        .with_hint("`{op: cast, dtype: float32}` converts");
  else if ((is_integer(a) && is_integer(b)) || inference.same_dtype())
    infer_broadcast(inference, DType::kBool);
}

}  // namespace

std::span<const OpDef> comparison() {
  static const OpDef kOps[] = {{
      .name = "equal",
      .doc = "Whether elements are equal; shapes broadcast, integers of any two dtypes compare.",
      .formula = "y = (a == b)",
      .operands = {{"a", "any shape", Accepts::kAny}, {"b", "any shape", Accepts::kAny}},
      .infer = infer_equal,
      .examples = {"equal(i32[4], i64[4])", "equal(u8[3,4], i8[4])", "equal(i64[7], i64[7])",
                   "equal(f32[3,4], f32[3,4])", "equal(bool[5], bool[5])",
                   "equal(i32[3,1], i32[4])"},
  }};
  return kOps;
}

}  // namespace flow::ops
