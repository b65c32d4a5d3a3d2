// The records of unfold, which turns windows over images into columns, and of fold, which sums such
// columns into images.
#include "ops/core/families.h"
#include "ops/core/windows.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

struct Unfolded {
  Windows windows;
  int64_t elements() const {
    return windows[0].size * windows[1].size;
  }  // the elements of a
     // window
  int64_t count() const { return windows[0].count * windows[1].count; }
};

/// Returns the windows over images of this height and width; reports attributes that are wrong.
std::optional<Unfolded> read_windows_over(Call& call, const Integers& input) {
  auto windows = read_windows(call, {});
  if (!windows || !place_windows(call, input, {}, *windows)) return {};
  return Unfolded{*windows};
}

std::optional<Unfolded> read_unfold(Call& call) {
  if (!has_rank(call, 0, 4, "(N, C, H, W)")) return {};
  return read_windows_over(call, call.shape(0).from(2).extents());
}

std::optional<Unfolded> read_fold(Call& call) {
  const auto size = sizes_of(call, "output_size");
  if (!size || !has_rank(call, 0, 3, "(N, C kh kw, windows)")) return {};
  return read_windows_over(call, *size);
}

void set_normalized(Attributes& attributes, const Windows& windows) {
  attributes.set("kernel_size", each_of(windows, &AxisWindows::size));
  attributes.set("strides", each_of(windows, &AxisWindows::stride));
  attributes.set("dilation_rate", each_of(windows, &AxisWindows::dilation));
  attributes.set("padding", pads_of(windows));
}

void normalize_unfold(Call& call, Attributes& attributes) {
  if (const auto of = read_unfold(call)) set_normalized(attributes, of->windows);
}

void normalize_fold(Call& call, Attributes& attributes) {
  const auto of = read_fold(call);
  if (!of) return;
  set_normalized(attributes, of->windows);
  attributes.set("output_size", *sizes_of(call, "output_size"));
}

void infer_unfold(Call& call) {
  const auto of = read_unfold(call);
  if (!of) return;
  const Shape& x = call.shape(0);
  call.result(call.dtype(0), {x[0], x[1] * of->elements(), of->count()},
              batch_before(call.operand(0).batch_axis, 1));
}

void infer_fold(Call& call) {
  const auto of = read_fold(call);
  if (!of) return;
  const Shape& x = call.shape(0);
  if (x[2] != of->count() || x[1] % of->elements() != 0)
    return (void)call
        .bad_operand(0, Reason::kShapeMismatch,
                     fmt::format("{} has {} columns of {} elements; expected {}, of a multiple of "
                                 "{}",
                                 x.str(), x[2], x[1], of->count(), of->elements()))
        .with_hint("give `fold` the windows of the `unfold` whose columns it reads");
  const Integers& size = call.integers("output_size");
  call.result(call.dtype(0), {x[0], x[1] / of->elements(), size[0], size[1]},
              batch_before(call.operand(0).batch_axis, 1));
}

std::vector<AttributeSpec> window_attributes() {
  return {sizes_attribute("kernel_size", "", "height and width of a window, or one number"),
          sizes_attribute("strides", "1", "step between windows, in elements"),
          padding_attribute(2),
          sizes_attribute("dilation_rate", "1", "spacing between elements of a window")};
}

std::vector<AttributeSpec> fold_attributes() {
  std::vector<AttributeSpec> attributes = window_attributes();
  attributes.insert(
      attributes.begin(),
      sizes_attribute("output_size", "", "height and width of the images, or one number"));
  return attributes;
}

}  // namespace

std::vector<OpSpec> unfold() {
  return {
      {.name = "unfold",
       .doc = "Windows over images as columns (im2col): channels and places of a window along "
              "one axis, windows row by row along the next.",
       .formula = "y[n, (c kh + u) kw + v, i W' + j] = x[n, c, i s + u d - pad, j s + v d - pad]",
       .operands = {{"in", "(N, C, H, W)"}},
       .attributes = window_attributes(),
       .normalize = normalize_unfold,
       .infer = infer_unfold,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .numpy = "unfolded(x, kernel_size, strides, padding, dilation_rate)",
       .examples = {"unfold(f32[2,3,6,5]) kernel_size=2",
                    "unfold(f32[1,2,7,8]) kernel_size=[3,2] strides=[2,1] padding=[1,0,1,1]",
                    "unfold(f32[2,1,9,9]) kernel_size=3 dilation_rate=2 padding=[2,2,2,2]",
                    "unfold(f32[1,2,5,5]) kernel_size=[1,2] strides=3"}},
      {.name = "fold",
       .doc = "Sums columns of windows into images (col2im), the other way round than `unfold`.",
       .formula = "y[n, c, h, w] = sum of x over the places of windows that lie at (h, w)",
       .operands = {{"in", "(N, C kh kw, windows)"}},
       .attributes = fold_attributes(),
       .normalize = normalize_fold,
       .infer = infer_fold,
       .linear = {0},
       .numpy = "folded(x, output_size, kernel_size, strides, padding, dilation_rate)",
       .examples = {"fold(f32[2,12,20]) output_size=[6,5] kernel_size=2",
                    "fold(f32[1,12,24]) output_size=[7,8] kernel_size=[3,2] strides=[2,1]"
                    " padding=[1,0,1,0]",
                    "fold(f32[2,9,81]) output_size=9 kernel_size=3 dilation_rate=2"
                    " padding=[2,2,2,2]",
                    "fold(f32[1,4,4]) output_size=[5,5] kernel_size=[1,2] strides=3"}},
  };
}

}  // namespace flow::ops
