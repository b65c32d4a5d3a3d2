// Slices picked by indices of several axes, or written there: layers of gather, scatter_add and
// scatter_update.
#include "ops/core/families.h"
#include "ops/core/limits.h"

namespace flow::ops {

std::span<const OpSpec> gather_nd() {
  static const OpSpec kOps[] = {
      {
          .name = "gather_nd",
          .doc = "Gathers elements or slices, each by indices of the first axes.",
          .formula = "y[..., :] = params[indices[..., 0], indices[..., 1], ..., :]",
          .operands = {{"params", "any shape except a scalar", Accepts::kAny},
                       {"indices",
                        "integers (..., K) in range of the first K axes after the batch axes",
                        Accepts::kInteger}},
          .attributes = {{.name = "batch_dims",
                          .type = AttributeType::kInteger,
                          .fallback = "0",
                          .doc = "leading axes that both operands share, which are not indexed",
                          .min = 0,
                          .max = kMaxRank}},
          .numpy = "params[tuple(np.moveaxis(indices, -1, 0))] if batch_dims == 0 else "
                   "np.stack([p[tuple(np.moveaxis(i, -1, 0))] for p, i in zip(params, indices)])",
          .examples = {"gather_nd(f32[10,12,3], i32[4,2])", "gather_nd(f32[10,12], i64[2,3,2])",
                       "gather_nd(f32[10,3], u8[5,1])", "gather_nd(i32[10], i32[1])",
                       "gather_nd(f32[4,10,11,2], i32[4,3,2]) batch_dims=1"},
      },
      {
          .name = "scatter_nd",
          .doc = "Replaces elements or slices, each by indices of the first axes, or adds to them. "
                 "Of equal indices, the last replaces; additions are in their order.",
          .formula = "y = x, then y[indices[..., 0], ..., :] = updates[..., :]",
          .operands = {{"in", "any shape except a scalar", Accepts::kAny},
                       {"indices", "integers (..., K) in range of the first K axes",
                        Accepts::kInteger},
                       {"updates", "shape of what gather_nd gathers, dtype of x", Accepts::kAny}},
          .attributes = {{.name = "reduction",
                          .type = AttributeType::kText,
                          .fallback = "replace",
                          .doc = "add to elements instead of replacing them",
                          .choices = {"replace", "add"}}},
          .numpy = "scattered(x, indices, updates, reduction)",
          .examples = {"scatter_nd(f32[10,12,3], i32[4,2], f32[4,3])",
                       "scatter_nd(f32[10,12], i64[2,30,2], f32[2,30]) reduction=add",
                       "scatter_nd(u8[10,3], u8[5,1], u8[5,3])"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
