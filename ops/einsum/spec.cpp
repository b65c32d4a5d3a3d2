// Products and sums of tensors by the names of their axes.
#include "ops/core/families.h"

namespace flow::ops {

std::span<const OpSpec> einsum() {
  static const OpSpec kOps[] = {
      {
          .name = "einsum",
          .doc = "Multiplies tensors along axes of equal names and sums over axes that the result "
                 "does not name, as NumPy's einsum does.",
          .formula = "y[i, k] = sum over j of a[i, j] b[j, k], for \"ij, jk -> ik\"",
          .operands = {{.name = "in", .doc = "tensors of the equation's terms", .variadic = true}},
          .attributes =
              {{"equation", AttributeType::kEquation, "",
                "a letter for each axis, terms separated by commas, `...` for other axes; "
                "without `->`, the result has the letters that occur once, in order"}},
          .numpy = "np.einsum(equation, *x)",
          .examples = {"einsum(f32[3,4], f32[4,5]) equation=ij,jk->ik",
                       "einsum(f32[3,4]) equation=ji",
                       "einsum(f32[2,3,4], f32[2,5,4]) equation=bij,bkj->bki",
                       "einsum(f32[3,4], f32[4]) equation=ij,j",
                       "einsum(f32[3,4,4]) equation=...ii->...i", "einsum(f32[4,4]) equation=ii",
                       "einsum(f32[3], f32[4]) equation=i,j->ji",
                       "einsum(f32[3,4], f32[4,5], f32[5,3]) equation=ij,jk,ki->",
                       "einsum(f32[2,1,3,4], f32[5,4,6]) equation=...ij,...jk->...ik",
                       "einsum(f32[2,3,4], f32[2,3,4]) equation=ijk,ijk->ij",
                       "einsum(f32[2,3,4]) equation=ijk->k"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
