// Converting between dtypes.
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

void infer_cast(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  inference.result(inference.attribute<DType>("dtype"), x.shape, x.rows);
}

/// Passes between floats alone. Gradients are of the job's float dtype, whatever they are of.
std::vector<ir::ValueId> cast_gradient(GradientContext& context) { return {context.gradient()}; }

}  // namespace

std::span<const OpDef> cast() {
  static const OpDef kOps[] = {{
      .name = "cast",
      .doc = "Converts each element to another dtype. A cast to integers truncates and saturates, "
             "and maps NaN to 0; a cast to bool is true for nonzero elements.",
      .formula = "y = dtype(x)",
      .operands = {{"in", "any shape", Accepts::kAny}},
      .attributes = {{"dtype", AttributeType::kDType, "", "dtype of the result"}},
      .infer = infer_cast,
      .gradient = cast_gradient,
      .examples = {"cast(f32[3,4]) dtype=float64", "cast(f64[3,4]) dtype=float32",
                   "cast(i32[5]) dtype=float32", "cast(bool[5]) dtype=float32",
                   "cast(f32[5]) dtype=int32", "cast(i64[5]) dtype=uint8",
                   "cast(f32[5]) dtype=bool"},
  }};
  return kOps;
}

}  // namespace flow::defs
