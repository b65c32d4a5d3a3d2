// Windows over images as columns, and sums of such columns as images.
#include <fmt/format.h>

#include "ops/core/families.h"
#include "ops/core/windows.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

struct Unfolded {
  Windows windows;
  PlacedWindows placed;

  int64_t elements() const { return windows.size[0] * windows.size[1]; }  // of a window
  int64_t count() const { return placed.count[0] * placed.count[1]; }
};

/// The windows over images of that height and width. Reports what is wrong with them.
std::optional<Unfolded> read_windows(Call& call, std::array<int64_t, 2> input) {
  const auto size = pair_of(call, "kernel_size", call.integers("kernel_size"));
  const auto strides = pair_of(call, "strides", call.integers("strides"));
  const auto dilation = pair_of(call, "dilation_rate", call.integers("dilation_rate"));
  if (!size || !strides || !dilation) return {};
  const Windows windows{*size, *strides, *dilation};
  const auto placed = place_windows(call, input, windows, call.attribute("padding"), {});
  if (!placed) return {};
  return Unfolded{windows, *placed};
}

std::optional<Unfolded> read_unfold(Call& call) {
  if (!has_rank(call, 0, 4, "(N, C, H, W)")) return {};
  return read_windows(call, {call.shape(0)[2], call.shape(0)[3]});
}

std::optional<Unfolded> read_fold(Call& call) {
  const auto size = pair_of(call, "output_size", call.integers("output_size"));
  if (!size || !has_rank(call, 0, 3, "(N, C kh kw, windows)")) return {};
  return read_windows(call, *size);
}

void set_normalized(Attributes& attributes, const Unfolded& of) {
  const auto list = [](const std::array<int64_t, 2>& pair) {
    return Integers(pair.begin(), pair.end());
  };
  attributes.set("kernel_size", list(of.windows.size));
  attributes.set("strides", list(of.windows.strides));
  attributes.set("dilation_rate", list(of.windows.dilation));
  attributes.set("padding", of.placed.padding);
}

void normalize_unfold(Call& call, Attributes& attributes) {
  if (const auto of = read_unfold(call)) set_normalized(attributes, *of);
}

void normalize_fold(Call& call, Attributes& attributes) {
  const auto of = read_fold(call);
  if (!of) return;
  set_normalized(attributes, *of);
  const auto size = pair_of(call, "output_size", call.integers("output_size"));
  attributes.set("output_size", Integers(size->begin(), size->end()));
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
