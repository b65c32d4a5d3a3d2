// One operand, broadcast to a shape.
#include <fmt/format.h>

#include "ops/core/broadcast.h"
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_broadcast_to(Call& call) {
  const Operand& x = call.operand(0);
  const Shape shape(call.integers("shape"));
  if (broadcast(x.shape, shape) == shape)
    call.result(x.dtype, shape, broadcast_batch(shape, x.shape, x.batch_axis, shape, kNoBatch));
  else
    call.bad_attribute("shape", Reason::kShapeMismatch,
                       fmt::format("{} does not broadcast to {}", x.shape.str(), shape.str()));
}

}  // namespace

std::span<const OpSpec> broadcast_to() {
  static const OpSpec kOps[] = {
      {
          .name = "broadcast_to",
          .doc = "Broadcasts along axes of size 1 and new leading axes.",
          .formula = "y[..., i, ...] = x[..., 0, ...]",
          .operands = {{"in", "a shape that broadcasts to `shape`", Accepts::kAny}},
          .attributes = {{.name = "shape",
                          .type = AttributeType::kIntegers,
                          .fallback = "",
                          .doc = "shape of the result",
                          .min = 1}},
          .plan_attributes = {{.name = "shape", .kind = Kind::kShape, .of_result = true}},
          .infer = infer_broadcast_to,
          .linear = {0},
          .moves_elements = true,
          .flops = {0},
          .numpy = "np.broadcast_to(x, shape)",
          .examples = {"broadcast_to(f32[3,1]) shape=[3,4]", "broadcast_to(f32[]) shape=[2,3]",
                       "broadcast_to(f32[4]) shape=[2,3,4]", "broadcast_to(i64[2,1]) shape=[2,3]",
                       "broadcast_to(bool[3]) shape=[2,3]"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
