// The elements in reverse order along axes.
#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void normalise_flip(Call& call, Attributes& attributes) { normalise_axes(call, attributes, 0); }

/// A batch axis in reverse order does not count: the padding of a predict batch would come first.
void infer_flip(Call& call) {
  const Operand& x = call.operand(0);
  if (!have_axes(call, x.shape)) return;
  const bool reversed = std::ranges::count(call.integers("axes"), int64_t{x.batch_axis}) > 0;
  call.result(x.dtype, x.shape, reversed ? kBatchReduced : x.batch_axis);
}

}  // namespace

std::span<const OpSpec> flip() {
  static const OpSpec kOps[] = {
      {
          .name = "flip",
          .doc = "Reverses the order of the elements along axes.",
          .formula = "y[i] = x[d - 1 - i]",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {{"axis", AttributeType::kIntegers, "all",
                          "axis to reverse, or a list of axes"}},
          .plan_attributes = {{"axes", Kind::kAxes}},
          .normalise = normalise_flip,
          .infer = infer_flip,
          .linear = {0},
          .moves_elements = true,
          .flops = {0},
          .numpy = "np.flip(x, axis)",
          .examples = {"flip(f32[3,4])", "flip(f32[2,3,4]) axis=1", "flip(f32[2,3,4]) axis=[0,-1]",
                       "flip(f32[2,3,4,5]) axis=[1,2]", "flip(i64[2,1,3]) axis=-1", "flip(u8[5])",
                       "flip(bool[3,2]) axis=0", "flip(f32[])"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
