// Gradients of tile, flip and broadcast_to, and the expansion of ops that reorder elements into
// reshapes, transposes and copies.
#include "compiler/grad/shared_parts.h"
#include "ops/core/index_text.h"
#include "ops/core/windows.h"

namespace flow::grad {
namespace {

using Integers = std::vector<int64_t>;

/// Sums over the copies, one axis at a time.
std::vector<ir::ValueId> tile_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Integers multiples = context.node.attributes.get<Integers>("multiples");
  Shape left = context.value_of(context.gradient()).shape;
  ir::ValueId sum = context.gradient();
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t copies = multiples[static_cast<size_t>(axis)];
    if (copies == 1) continue;
    left[axis] = x[axis];
    const Integers apart = {left.elements(0, axis), copies, left.elements(axis, left.rank())};
    sum = context.reshape(0, sum, apart, fmt::format("copies{}", axis));
    sum = context.add("reduce_sum", 0, {sum}, {{"axis", Integers{1}}, {"keepdims", false}},
                      fmt::format("sum{}", axis));
  }
  return {context.reshape(0, sum, x.extents())};
}

std::vector<ir::ValueId> flip_gradient(GradientContext& context) {
  return {context.add("flip", 0, {context.gradient()},
                      {{"axis", *context.node.attributes.find("axes")}})};
}

std::vector<ir::ValueId> broadcast_to_gradient(GradientContext& context) {
  return {sum_to_operand(context, 0, context.gradient())};
}

using ir::ValueId;

/// Returns x reshaped to `split`, its axes permuted by `perm`, then reshaped to `joined`.
ValueId regrouped(const LayerContext& context, Integers split, Integers perm, Integers joined) {
  const ValueId parts = context.reshape("split", context.operands[0], std::move(split));
  const ValueId moved = context.add("transpose", "transpose", {parts}, {{"perm", std::move(perm)}});
  return context.reshape("", moved, std::move(joined));
}

/// Returns true if operand 0 is (N, C, H, W); otherwise reports an error.
bool are_images(const LayerContext& context) {
  ops::Call call = context.call();
  ops::has_rank(call, 0, 4, "(N, C, H, W)");
  return !context.report(call);
}

/// Returns true if `extent` is a multiple of `divisor`; otherwise reports an error.
bool divides(const LayerContext& context, int64_t divisor, int64_t extent, std::string_view what) {
  if (extent % divisor == 0) return true;
  context.site().bad_attribute("factor", Diagnosis::kShapeMismatch,
                               fmt::format("{} has {} {}; expected a multiple of {}",
                                           context.operand(0).shape.str(), extent, what, divisor));
  return false;
}

bool channels_come_first(const LayerContext& context) {
  return context.attributes.get<std::string>("mode") == "crd";
}

ValueId expand_pixel_shuffle(LayerContext& context) {
  if (!are_images(context)) return {};
  const Shape x = context.operand(0).shape;
  const int64_t r = context.attributes.get<int64_t>("factor");
  if (!divides(context, r, x[1], "channels") || !divides(context, r * r, x[1], "channels"))
    return {};
  const int64_t c = x[1] / (r * r);
  Integers joined = {x[0], c, x[2] * r, x[3] * r};
  return channels_come_first(context)
             ? regrouped(context, {x[0], c, r, r, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, joined)
             : regrouped(context, {x[0], r, r, c, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, joined);
}

ValueId expand_pixel_unshuffle(LayerContext& context) {
  if (!are_images(context)) return {};
  const Shape x = context.operand(0).shape;
  const int64_t r = context.attributes.get<int64_t>("factor");
  if (!divides(context, r, x[2], "rows") || !divides(context, r, x[3], "columns")) return {};
  const int64_t h = x[2] / r, w = x[3] / r;
  const Integers perm =
      channels_come_first(context) ? Integers{0, 1, 3, 5, 2, 4} : Integers{0, 3, 5, 1, 2, 4};
  return regrouped(context, {x[0], x[1], h, r, w, r}, perm, {x[0], x[1] * r * r, h, w});
}

ValueId expand_roll(LayerContext& context) {
  const auto axis = context.axis();
  if (!axis) return {};
  const Shape x = context.operand(0).shape;
  const int64_t n = x[*axis], shift = context.attributes.get<int64_t>("shift");
  const int64_t first = ((-shift) % n + n) % n;  // index of the element that moves to the start
  if (first == 0) return context.reshape("", context.operands[0], x.extents());
  const auto part = [&](const char* name, int64_t begin, int64_t end) {
    return context.add("slice", name, {context.operands[0]},
                       {{"index", ops::index_of_range(x.rank(), *axis, begin, end)}});
  };
  const ValueId head = part("head", first, n), tail = part("tail", 0, first);
  return context.add("concat", "", {head, tail}, {{"axis", int64_t{*axis}}});
}

ValueId expand_repeat_elements(LayerContext& context) {
  const auto axis = context.axis();
  if (!axis) return {};
  const int64_t repeats = context.attributes.get<int64_t>("repeats");
  Integers single = context.operand(0).shape.extents();
  single.insert(single.begin() + *axis + 1, 1);
  Integers copies = single, joined = context.operand(0).shape.extents();
  copies[static_cast<size_t>(*axis) + 1] = repeats;
  if (!Shape(copies).checked_elements()) {
    context.site().bad_attribute("repeats", Diagnosis::kTensorTooLarge,
                                 fmt::format("{} copies of {} are too many to count", repeats,
                                             context.operand(0).shape.str()));
    return {};
  }
  joined[static_cast<size_t>(*axis)] *= repeats;
  const ValueId x = context.reshape("expand", context.operands[0], std::move(single));
  const ValueId copied = context.add("broadcast_to", "copies", {x}, {{"shape", std::move(copies)}});
  return context.reshape("", copied, std::move(joined));
}

}  // namespace

std::vector<Rules> rearrange() {
  return {{"tile", tile_gradient},
          {"flip", flip_gradient},
          {"broadcast_to", broadcast_to_gradient},
          {"pixel_shuffle", nullptr, expand_pixel_shuffle},
          {"pixel_unshuffle", nullptr, expand_pixel_unshuffle},
          {"roll", nullptr, expand_roll},
          {"repeat_elements", nullptr, expand_repeat_elements}};
}

}  // namespace flow::grad
