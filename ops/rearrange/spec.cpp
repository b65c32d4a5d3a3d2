// Elements in another order: layers of reshapes, transposes and copies.
#include "ops/core/count_attribute.h"
#include "ops/core/families.h"
#include "ops/core/limits.h"

namespace flow::ops {
namespace {

AttributeSpec channel_order_attribute() {
  return {.name = "mode",
          .type = AttributeType::kText,
          .fallback = "crd",
          .doc =
              "order of the channels: crd numbers channel, row and column of a block, as "
              "PyTorch does; dcr numbers row, column and channel, as TensorFlow does",
          .choices = {"crd", "dcr"}};
}

}  // namespace

std::span<const OpSpec> rearrange() {
  static const OpSpec kOps[] = {
      {
          .name = "pixel_shuffle",
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
                       "pixel_shuffle(u8[1,9,2,2]) factor=3"},
      },
      {
          .name = "pixel_unshuffle",
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
                       "pixel_unshuffle(i64[1,1,3,6]) factor=3"},
      },
      {
          .name = "roll",
          .doc = "Moves elements along an axis; those that leave one end enter the other.",
          .formula = "y[(i + shift) mod d] = x[i]",
          .operands = {{"in", "any shape except a scalar", Accepts::kAny}},
          .attributes = {{.name = "shift",
                          .type = AttributeType::kInteger,
                          .fallback = "",
                          .doc = "distance; negative toward the beginning",
                          .min = -static_cast<double>(kMaxSize),
                          .max = static_cast<double>(kMaxSize)},
                         {"axis", AttributeType::kInteger, "", "axis to move along"}},
          .numpy = "np.roll(x, shift, axis)",
          .examples = {"roll(f32[3,5]) shift=2 axis=1", "roll(f32[3,5]) shift=-4 axis=0",
                       "roll(bool[7]) shift=7 axis=-1", "roll(i32[2,7,2]) shift=10 axis=1"},
      },
      {
          .name = "repeat_elements",
          .doc = "Repeats each element along an axis.",
          .formula = "y[..., i, ...] = x[..., floor(i / repeats), ...]",
          .operands = {{"in", "any shape except a scalar", Accepts::kAny}},
          .attributes = {count_attribute("repeats", "copies of each element"),
                         {"axis", AttributeType::kInteger, "", "axis to repeat along"}},
          .numpy = "np.repeat(x, repeats, axis)",
          .examples = {"repeat_elements(f32[3,2]) repeats=3 axis=1",
                       "repeat_elements(f32[3,2]) repeats=2 axis=0",
                       "repeat_elements(u8[4]) repeats=2 axis=-1"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
