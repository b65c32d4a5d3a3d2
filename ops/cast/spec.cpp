// The records of cast, which copies a tensor to another dtype, and copy, which copies it to memory
// that another device can access.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_cast(Call& call) {
  const Operand& x = call.operand(0);
  call.result(call.attribute<DType>("dtype"), x.shape, x.batch_axis);
}

}  // namespace

std::vector<OpSpec> cast() {
  return {
      {.name = "cast",
       .doc = "Converts each element to another dtype. A cast to integers truncates and saturates, "
              "and maps NaN to 0; a cast to bool is true for nonzero elements.",
       .formula = "y = dtype(x)",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {{"dtype", AttributeType::kDType, "", "dtype of the result"}},
       .infer = infer_cast,
       .in_place = {0},
       .epilogue = Epilogue::kCast,
       .flops = {0},
       .examples = {"cast(f32[3,4]) dtype=float64", "cast(f64[3,4]) dtype=float32",
                    "cast(i32[5]) dtype=float32", "cast(bool[5]) dtype=float32",
                    "cast(f32[5]) dtype=int32", "cast(i64[5]) dtype=uint8",
                    "cast(f32[5]) dtype=bool"}},
      {.name = "copy",
       .doc = "Copies a value to another device.",
       .formula = "y = x",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .infer = infer_like_operand,
       .between_devices = true,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .internal = true},
  };
}

}  // namespace flow::ops
