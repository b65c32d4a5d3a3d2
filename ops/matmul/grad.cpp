// Gradients of matrix products.
#include "compiler/grad/broadcast.h"
#include "compiler/ir/rules.h"

namespace flow::grad {
namespace {

Shape leading_dimensions(const Shape& shape) { return shape.first(shape.rank() - 2); }

/// With dy the gradient of y = a b: da = dy b^T, db = a^T dy; a transposed operand has the
/// transposed gradient. da comes first, so that a variable b is read no more when db is made.
std::vector<ir::ValueId> matmul_gradient(GradientContext& context) {
  const bool transpose_a = context.node.attributes.get<bool>("transpose_a");
  const bool transpose_b = context.node.attributes.get<bool>("transpose_b");
  const ir::ValueId a = context.operand(0), b = context.operand(1), dy = context.gradient();
  const auto product = [&](size_t i, ir::ValueId left, bool transpose_left, ir::ValueId right,
                           bool transpose_right) {
    const Shape y = context.value_of(dy).shape;
    const bool copied =
        leading_dimensions(context.value_of(context.operand(i)).shape) != leading_dimensions(y);
    const ir::ValueId made =
        context.add("matmul", i, {left, right},
                    {{"transpose_a", transpose_left}, {"transpose_b", transpose_right}},
                    copied ? "matmul" : "");
    return sum_to_operand(context, i, made);
  };
  std::vector<ir::ValueId> gradients(2);
  if (context.wanted[0])
    gradients[0] =
        transpose_a ? product(0, b, transpose_b, dy, true) : product(0, dy, false, b, !transpose_b);
  if (context.wanted[1])
    gradients[1] =
        transpose_b ? product(1, dy, true, a, transpose_a) : product(1, a, !transpose_a, dy, false);
  return gradients;
}

}  // namespace

std::span<const Rules> matmul() {
  static constexpr Rules kRules[] = {{"matmul", matmul_gradient}};
  return kRules;
}

}  // namespace flow::grad
