// Copies of a tensor, one after another along each axis.
#include <fmt/format.h>

#include "ops/core/families.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

void infer_tile(Call& call) {
  const Operand& x = call.operand(0);
  const Integers& multiples = call.integers("multiples");
  if (multiples.size() != static_cast<size_t>(x.shape.rank())) {
    call.bad_attribute("multiples", Reason::kRankMismatch,
                       fmt::format("{} for {}; expected one per axis",
                                   counted(multiples.size(), "multiple"), x.shape.str()))
        .with_hint("write 1 for an axis without copies");
    return;
  }
  Shape out = x.shape;
  int batch_axis = x.batch_axis;
  for (int axis = 0; axis < out.rank(); ++axis) {
    const int64_t copies = multiples[static_cast<size_t>(axis)];
    const auto extent = Shape{out[axis], copies}.checked_elements();
    if (!extent) {
      call.bad_attribute("multiples", Reason::kTensorTooLarge,
                         fmt::format("{} copies of axis {} of {} are too many to count", copies,
                                     axis, x.shape.str()));
      return;
    }
    out[axis] = *extent;
    if (axis == x.batch_axis && copies != 1) batch_axis = kBatchReduced;
  }
  call.result(x.dtype, std::move(out), batch_axis);
}

}  // namespace

std::span<const OpSpec> tile() {
  static const OpSpec kOps[] = {
      {
          .name = "tile",
          .doc = "Repeats a tensor along each axis.",
          .formula = "y[..., i, ...] = x[..., i mod d, ...]",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {{.name = "multiples",
                          .type = AttributeType::kIntegers,
                          .fallback = "",
                          .doc = "number of copies along each axis",
                          .min = 1}},
          .plan_attributes = {{"multiples", Kind::kShape}},
          .infer = infer_tile,
          .linear = {0},
          .moves_elements = true,
          .flops = {0},
          .numpy = "np.tile(x, multiples)",
          .examples = {"tile(f32[2,3]) multiples=[2,1]", "tile(f32[2,3]) multiples=[3,2]",
                       "tile(f32[2,1,3]) multiples=[2,4,2]", "tile(u8[3]) multiples=[2]",
                       "tile(f32[2]) multiples=[1]", "tile(f32[]) multiples=[]"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
