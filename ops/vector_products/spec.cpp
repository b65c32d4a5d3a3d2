// Products of vectors: sums of products, and products of all pairs.
#include "ops/core/families.h"

namespace flow::ops {

std::span<const OpSpec> vector_products() {
  static const OpSpec kOps[] = {
      {
          .name = "dot",
          .doc = "Dot products of vectors along the last axis; leading axes broadcast.",
          .formula = "y[...] = sum of a[..., k] b[..., k] over k",
          .operands = {{"a", "(..., K)"}, {"b", "(..., K)"}},
          .numpy = "(a * b).sum(-1)",
          .examples = {"dot(f32[7], f32[7])", "dot(f32[4,2,5], f32[2,5])",
                       "dot(f32[3,1,6], f32[4,6])"},
      },
      {
          .name = "outer",
          .doc =
              "Products of all pairs of two vectors along the last axis; leading axes broadcast.",
          .formula = "y[..., i, j] = a[..., i] b[..., j]",
          .operands = {{"a", "(..., N)"}, {"b", "(..., M)"}},
          .numpy = "a[..., :, None] * b[..., None, :]",
          .examples = {"outer(f32[3], f32[4])", "outer(f32[2,3], f32[2,5])",
                       "outer(f32[4,1,3], f32[2,1])"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
