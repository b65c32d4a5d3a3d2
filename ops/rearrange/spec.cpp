// The records of ops that repeat elements or change their order.
#include <algorithm>

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

void normalize_flip(Call& call, Attributes& attributes) { normalize_axes(call, attributes, 0); }

/// A reversed batch axis is no batch axis of the result, because the padding of a predict batch
/// would come first.
void infer_flip(Call& call) {
  const Operand& x = call.operand(0);
  if (!have_axes(call, x.shape)) return;
  const bool reversed = std::ranges::count(call.integers("axes"), int64_t{x.batch_axis}) > 0;
  call.result(x.dtype, x.shape, reversed ? kBatchReduced : x.batch_axis);
}

void infer_broadcast_to(Call& call) {
  const Operand& x = call.operand(0);
  const Shape shape(call.integers("shape"));
  if (broadcast(x.shape, shape) == shape)
    call.result(x.dtype, shape, broadcast_batch(shape, x.shape, x.batch_axis, shape, kNoBatch));
  else
    call.bad_attribute("shape", Reason::kShapeMismatch,
                       fmt::format("{} does not broadcast to {}", x.shape.str(), shape.str()));
}

AttributeSpec channel_order_attribute() {
  return choice_attribute(
      "mode", "crd",
      "order of the channels: crd numbers channel, row and column of a block, as "
      "PyTorch does; dcr numbers row, column and channel, as TensorFlow does",
      {"crd", "dcr"});
}

}  // namespace

std::vector<OpSpec> rearrange() {
  return {
      {.name = "tile",
       .doc = "Repeats a tensor along each axis.",
       .formula = "y[..., i, ...] = x[..., i mod d, ...]",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {extents_attribute("multiples", "", "number of copies along each axis")},
       .infer = infer_tile,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .numpy = "np.tile(x, multiples)",
       .examples = {"tile(f32[2,3]) multiples=[2,1]", "tile(f32[2,3]) multiples=[3,2]",
                    "tile(f32[2,1,3]) multiples=[2,4,2]", "tile(u8[3]) multiples=[2]",
                    "tile(f32[2]) multiples=[1]", "tile(f32[]) multiples=[]"}},
      {.name = "flip",
       .doc = "Reverses the order of the elements along axes.",
       .formula = "y[i] = x[d - 1 - i]",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {axes_attribute("axis to reverse, or a list of axes")},
       .plan_attributes = {axes_in_plans()},
       .normalize = normalize_flip,
       .infer = infer_flip,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .numpy = "np.flip(x, axis)",
       .examples = {"flip(f32[3,4])", "flip(f32[2,3,4]) axis=1", "flip(f32[2,3,4]) axis=[0,-1]",
                    "flip(f32[2,3,4,5]) axis=[1,2]", "flip(i64[2,1,3]) axis=-1", "flip(u8[5])",
                    "flip(bool[3,2]) axis=0", "flip(f32[])"}},
      {.name = "broadcast_to",
       .doc = "Broadcasts along axes of size 1 and new leading axes.",
       .formula = "y[..., i, ...] = x[..., 0, ...]",
       .operands = {{"in", "a shape that broadcasts to `shape`", Accepts::kAny}},
       .attributes = {extents_attribute("shape", "", "shape of the result")},
       .plan_attributes = {extents_of_result("shape")},
       .infer = infer_broadcast_to,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .numpy = "np.broadcast_to(x, shape)",
       .examples = {"broadcast_to(f32[3,1]) shape=[3,4]", "broadcast_to(f32[]) shape=[2,3]",
                    "broadcast_to(f32[4]) shape=[2,3,4]", "broadcast_to(i64[2,1]) shape=[2,3]",
                    "broadcast_to(bool[3]) shape=[2,3]"}},
      {.name = "pixel_shuffle",
       .doc = "Moves channels into blocks of pixels: (N, C r r, H, W) becomes (N, C, H r, W r).",
       .formula = "y[n, c, h r + i, w r + j] = x[n, (c r + i) r + j, h, w]",
       .operands = {{"in", "(N, C, H, W)", Accepts::kAny}},
       .attributes = {count_attribute("factor", "height and width of a block, r"),
                      channel_order_attribute()},
       .numpy = "x.reshape(x.shape[0], -1, factor, factor, *x.shape[2:])"
                ".transpose(0, 1, 4, 2, 5, 3).reshape(x.shape[0], -1, *(factor * np.array("
                "x.shape[2:]))) if mode == 'crd' else x.reshape(x.shape[0], factor, factor, -1,"
                " *x.shape[2:]).transpose(0, 3, 4, 1, 5, 2).reshape(x.shape[0], -1,"
                " *(factor * np.array(x.shape[2:])))",
       .examples = {"pixel_shuffle(f32[2,12,3,2]) factor=2",
                    "pixel_shuffle(f32[2,12,3,2]) factor=2 mode=dcr",
                    "pixel_shuffle(u8[1,9,2,2]) factor=3"}},
      {.name = "pixel_unshuffle",
       .doc = "Moves blocks of pixels into channels: (N, C, H r, W r) becomes (N, C r r, H, W).",
       .formula = "y[n, (c r + i) r + j, h, w] = x[n, c, h r + i, w r + j]",
       .operands = {{"in", "(N, C, H, W)", Accepts::kAny}},
       .attributes = {count_attribute("factor", "height and width of a block, r"),
                      channel_order_attribute()},
       .numpy = "x.reshape(*x.shape[:2], x.shape[2] // factor, factor, x.shape[3] // factor,"
                " factor).transpose((0, 1, 3, 5, 2, 4) if mode == 'crd' else (0, 3, 5, 1, 2, 4))"
                ".reshape(x.shape[0], -1, x.shape[2] // factor, x.shape[3] // factor)",
       .examples = {"pixel_unshuffle(f32[2,3,4,6]) factor=2",
                    "pixel_unshuffle(f32[2,3,4,6]) factor=2 mode=dcr",
                    "pixel_unshuffle(i64[1,1,3,6]) factor=3"}},
      {.name = "roll",
       .doc = "Moves elements along an axis; those that leave one end enter the other.",
       .formula = "y[(i + shift) mod d] = x[i]",
       .operands = {{"in", "any shape except a scalar", Accepts::kAny}},
       .attributes = {offset_attribute("shift", "", "distance; negative toward the beginning"),
                      axis_attribute("", "axis to move along")},
       .numpy = "np.roll(x, shift, axis)",
       .examples = {"roll(f32[3,5]) shift=2 axis=1", "roll(f32[3,5]) shift=-4 axis=0",
                    "roll(bool[7]) shift=7 axis=-1", "roll(i32[2,7,2]) shift=10 axis=1"}},
      {.name = "repeat_elements",
       .doc = "Repeats each element along an axis.",
       .formula = "y[..., i, ...] = x[..., floor(i / repeats), ...]",
       .operands = {{"in", "any shape except a scalar", Accepts::kAny}},
       .attributes = {count_attribute("repeats", "copies of each element"),
                      axis_attribute("", "axis to repeat along")},
       .numpy = "np.repeat(x, repeats, axis)",
       .examples = {"repeat_elements(f32[3,2]) repeats=3 axis=1",
                    "repeat_elements(f32[3,2]) repeats=2 axis=0",
                    "repeat_elements(u8[4]) repeats=2 axis=-1"}},
  };
}

}  // namespace flow::ops
