// The records of cumulative sums and products along an axis.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

std::vector<AttributeSpec> cumulative_attributes(std::string_view axis, std::string_view exclusive,
                                                 std::string_view reverse) {
  return {axis_attribute("", axis),
          {"exclusive", AttributeType::kBool, "false", exclusive},
          {"reverse", AttributeType::kBool, "false", reverse}};
}

std::vector<AttributeSpec> cumprod_attributes() {
  return cumulative_attributes("axis to multiply along",
                               "leave each element out of its own product; the first product is 1",
                               "multiply from the last element to the first");
}

}  // namespace

std::vector<OpSpec> cumsum() {
  return {
      {.name = "cumsum",
       .doc = "Cumulative sum along an axis; integers wrap around.",
       .formula = "y[i] = x[0] + x[1] + ... + x[i]",
       .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
       .attributes = cumulative_attributes(
           "axis to sum along", "leave each element out of its own sum; the first sum is 0",
           "sum from the last element to the first"),
       .normalize = normalize_axis,
       .infer = infer_along_axis,
       .in_place = {0},
       .linear = {0},
       .numpy = "(np.flip(np.cumsum(np.flip(x, axis), axis, x.dtype), axis) if reverse"
                " else np.cumsum(x, axis, x.dtype)) - exclusive * x",
       .examples = {"cumsum(f32[3,4,2]) axis=1", "cumsum(f32[3,4]) axis=-1 exclusive=true",
                    "cumsum(f32[5,3]) axis=0 reverse=true",
                    "cumsum(f32[2,6]) axis=1 exclusive=true reverse=true",
                    "cumsum(f32[4,1,3]) axis=1", "cumsum(f32[2,1100]) axis=1",
                    "cumsum(i32[6]) axis=0", "cumsum(i64[2,3]) axis=0 exclusive=true",
                    "cumsum(u8[2,300]) axis=1 reverse=true"}},
      {.name = "cumprod",
       .doc = "Cumulative product along an axis; integers wrap around.",
       .formula = "y[i] = x[0] x[1] ... x[i]",
       .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
       .attributes = cumprod_attributes(),
       .normalize = normalize_axis,
       .infer = infer_along_axis,
       .in_place = {0},
       .numpy = "multiplied(x, axis, exclusive, reverse)",
       .examples = {"cumprod(f32[3,4,2]) axis=1", "cumprod(f32[3,4]) axis=-1 exclusive=true",
                    "cumprod(f32[5,3]) axis=0 reverse=true",
                    "cumprod(f32[2,6]) axis=1 exclusive=true reverse=true",
                    "cumprod(f32[4,1,3]) axis=1", "cumprod(f32[2,1100]) axis=1",
                    "cumprod(i32[6]) axis=0", "cumprod(i64[2,3]) axis=0 exclusive=true",
                    "cumprod(u8[2,300]) axis=1 reverse=true"}},
      {.name = "cumprod_grad",
       .doc = "Gradient of cumprod, without a division: right where elements are 0.",
       .formula = "dx[j] = sum of dy[i] x[0] ... x[i] without x[j] over i >= j",
       .operands = {{"dy", "any shape except a scalar"}, {"x", "the operand of cumprod"}},
       .attributes = cumprod_attributes(),
       .normalize = normalize_axis,
       .infer = infer_along_axis_grad,
       .linear = {0},
       .internal = true},
  };
}

}  // namespace flow::ops
