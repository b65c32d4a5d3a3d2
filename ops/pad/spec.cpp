// The records of pad and its gradient: they surround a tensor with elements.
#include <algorithm>

#include "ops/core/families.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

/// The numbers of elements that the attribute `paddings` puts before and after an axis.
struct AxisPads {
  int64_t before, after;
};

AxisPads pads_along(const Call& call, int axis) {
  const Integers& paddings = call.integers("paddings");
  const auto at = 2 * static_cast<size_t>(axis);
  return {paddings[at], paddings[at + 1]};
}

/// Returns true if the attribute `paddings` has a pair for each axis of operand 0; otherwise
/// reports an error.
bool have_pair_per_axis(Call& call) {
  const Shape& x = call.shape(0);
  const size_t given = call.integers("paddings").size();
  if (given == 2 * static_cast<size_t>(x.rank())) return true;
  call.bad_attribute("paddings", Reason::kRankMismatch,
                     fmt::format("{} for {} of rank {}; expected one per axis",
                                 counted(given / 2, "pair"), x.str(), x.rank()))
      .with_hint("write `[0, 0]` for an axis without padding");
  return false;
}

/// Returns true if the mode can produce the padding of an axis of `inside`; otherwise reports an
/// error. Reflections do not repeat the edge, so each side can have at most the axis's extent minus
/// one.
bool fills_pads(Call& call, const Shape& inside, int axis) {
  if (call.attribute<std::string>("mode") != "reflect") return true;
  const AxisPads pads = pads_along(call, axis);
  const int64_t most = inside[axis] - 1, asked = std::max(pads.before, pads.after);
  if (asked <= most) return true;
  call.bad_attribute(
      "paddings", Reason::kShapeMismatch,
      fmt::format("cannot reflect {} elements onto axis {} of {}; at most {} are available", asked,
                  axis, inside.str(), most));
  return false;
}

void infer_pad(Call& call) {
  const Operand& x = call.operand(0);
  if (!have_pair_per_axis(call) || !can_store(call, "value", x.dtype)) return;
  Shape out = x.shape;
  int batch_axis = x.batch_axis;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (!fills_pads(call, x.shape, axis)) return;
    const AxisPads pads = pads_along(call, axis);
    out[axis] += pads.before + pads.after;
    if (axis == x.batch_axis && out[axis] != x.shape[axis]) batch_axis = kBatchReduced;
  }
  call.result(x.dtype, std::move(out), batch_axis);
}

void infer_pad_grad(Call& call) {
  if (!have_pair_per_axis(call)) return;
  const Operand& dy = call.operand(0);
  Shape dx = dy.shape;
  int batch_axis = dy.batch_axis;
  for (int axis = 0; axis < dx.rank(); ++axis) {
    const AxisPads pads = pads_along(call, axis);
    dx[axis] -= pads.before + pads.after;
    if (dx[axis] < 1) {
      call.bad_attribute("paddings", Reason::kShapeMismatch,
                         fmt::format("{} and {} elements of padding leave nothing of axis {} of {}",
                                     pads.before, pads.after, axis, dy.shape.str()));
      return;
    }
    if (axis == dy.batch_axis && dx[axis] != dy.shape[axis]) batch_axis = kBatchReduced;
  }
  for (int axis = 0; axis < dx.rank(); ++axis)
    if (!fills_pads(call, dx, axis)) return;
  call.result(dy.dtype, std::move(dx), batch_axis);
}

AttributeSpec paddings_attribute() {
  return {.name = "paddings",
          .type = AttributeType::kPairs,
          .fallback = "",
          .doc = "[before, after] for each axis, in elements",
          .min = 0,
          .max = static_cast<double>(kMaxSize)};
}

}  // namespace

std::vector<OpSpec> pad() {
  return {
      {.name = "pad",
       .doc = "Pads each axis with a constant, a reflection or the edge values.",
       .formula = "y = x, with a constant, its reflection or its edge around it",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {paddings_attribute(),
                      choice_attribute(
                          "mode", "constant",
                          "source of the added elements; reflect does not repeat the edge",
                          {"constant", "reflect", "edge"}),
                      value_attribute("value", "0", "constant to pad with")},
       .infer = infer_pad,
       .flops = {0},
       .numpy =
           "np.pad(x, paddings or 0, mode, **({'constant_values': value} if mode == 'constant' "
           "else {}))",
       .examples = {"pad(f32[3,4]) paddings=[[1,0],[2,3]]",
                    "pad(f32[3,4]) paddings=[[0,0],[1,2]] value=-1.5",
                    "pad(f32[3,4]) paddings=[[2,1],[3,3]] mode=reflect",
                    "pad(f32[3,1]) paddings=[[2,1],[3,4]] mode=edge",
                    "pad(f32[2,1,4]) paddings=[[0,0],[0,0],[3,0]] mode=reflect",
                    "pad(i32[3]) paddings=[[1,1]] value=7", "pad(f32[]) paddings=[]"}},
      {.name = "pad_grad",
       .doc = "Gradient of pad in mode reflect or edge: adds up the gradients of all copies.",
       .formula = "dx[j] = sum of dy[i] with y[i] = x[j]",
       .operands = {{"dy", "shape of the padded tensor"}},
       .attributes = {paddings_attribute(),
                      choice_attribute("mode", "", "mode of the forward op", {"reflect", "edge"})},
       .infer = infer_pad_grad,
       .linear = {0},
       .flops = {0},
       .internal = true,
       .examples = {"pad_grad(f32[6,10]) paddings=[[2,1],[3,3]] mode=reflect",
                    "pad_grad(f32[6,8]) paddings=[[2,1],[3,4]] mode=edge"}},
  };
}

}  // namespace flow::ops
