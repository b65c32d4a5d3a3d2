// Cumulative sums along an axis.
#include "ops/axes.h"
#include "ops/families.h"

namespace flow::ops {
namespace {

void infer_cumsum(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& x = call.operand(0);
  call.result(x.dtype, x.shape, batch_beside(x.batch_axis, *axis));
}

}  // namespace

std::span<const OpSpec> cumsum() {
  static const OpSpec kOps[] = {
      {
          .name = "cumsum",
          .doc = "Cumulative sum along an axis; integers wrap around.",
          .formula = "y[i] = x[0] + x[1] + ... + x[i]",
          .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
          .attributes = {{"axis", AttributeType::kInteger, "", "axis to sum along"},
                         {"exclusive", AttributeType::kBool, "false",
                          "leave each element out of its own sum; the first sum is 0"},
                         {"reverse", AttributeType::kBool, "false",
                          "sum from the last element to the first"}},
          .plan_attributes = {{"axis", Kind::kAxis},
                              {"exclusive", Kind::kFlag},
                              {"reverse", Kind::kFlag}},
          .normalise = normalise_axis,
          .infer = infer_cumsum,
          .in_place = {0},
          .linear = {0},
          .numpy = "(np.flip(np.cumsum(np.flip(x, axis), axis, x.dtype), axis) if reverse"
                   " else np.cumsum(x, axis, x.dtype)) - exclusive * x",
          .examples = {"cumsum(f32[3,4,2]) axis=1", "cumsum(f32[3,4]) axis=-1 exclusive=true",
                       "cumsum(f32[5,3]) axis=0 reverse=true",
                       "cumsum(f32[2,6]) axis=1 exclusive=true reverse=true",
                       "cumsum(f32[4,1,3]) axis=1", "cumsum(f32[2,1100]) axis=1",
                       "cumsum(i32[6]) axis=0", "cumsum(i64[2,3]) axis=0 exclusive=true",
                       "cumsum(u8[2,300]) axis=1 reverse=true"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
