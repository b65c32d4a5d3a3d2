// The description of a matmul as products that the library computes.
#pragma once

#include <vector>

#include "ops/products/problem.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/plan/model/plan.h"

namespace flow::cuda {

/// A matmul as products of equal shape.
struct Products {
  MatmulSpec spec;
  std::vector<ProductStart> starts;
};

/// Returns the products of out[..., M, N] = op(a)[..., M, K] op(b)[..., K, N], whose leading axes
/// broadcast. Trailing batch axes along which no operand repeats form one batched product, and each
/// index of the axes before them is a separate product.
Products products_of(const plan::Step& step, DType operands, const Shape& a, const Shape& b,
                     const Shape& out, MathMode math_mode);

/// Return and set the step's aside: an array that its product stores or reads in addition. Only
/// this backend sets the attribute for it. The array is the step's second result or, for a mask
/// that is read, its third operand.
Aside aside_of(const plan::Step& step);
void set_aside(plan::Step& step, Aside aside);

}  // namespace flow::cuda
