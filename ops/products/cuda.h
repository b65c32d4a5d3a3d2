// What a matmul asks of the library.
#pragma once

#include <vector>

#include "ops/products/problem.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// A matmul as equal products.
struct Products {
  MatmulSpec spec;
  std::vector<ProductStart> starts;
};

/// out[..., M, N] = op(a)[..., M, K] op(b)[..., K, N]; leading axes broadcast. Axes that no operand
/// repeats are one batched product; those before them a product each.
Products products_of(const plan::Step& step, DType operands, const Shape& a, const Shape& b,
                     const Shape& out, MathMode math_mode);

/// What the step's product stores or reads aside: an attribute that this backend alone sets. It is
/// the step's second result or, of a mask that is read, its third operand.
Aside aside_of(const plan::Step& step);
void set_aside(plan::Step& step, Aside aside);

}  // namespace flow::cuda
