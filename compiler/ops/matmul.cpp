// Matrix products.
#include <fmt/format.h>

#include "compiler/grad/broadcast.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

using ir::kMixedRows;

Shape leading(const Shape& shape) { return shape.first(shape.rank() - 2); }

/// An operand as the product sees it.
struct Side {
  Shape batch;     // leading dimensions
  int64_t kept;    // rows of a, columns of b
  int64_t summed;  // the extent that both share
  int kept_axis;   // in the operand
  int summed_axis;
};

Side side_of(const Shape& shape, bool summed_last) {
  const int last = shape.rank() - 1;
  const int kept = summed_last ? last - 1 : last;
  const int summed = summed_last ? last : last - 1;
  return {leading(shape), shape[kept], shape[summed], kept, summed};
}

/// Where the row axis of an operand lies in the product.
int rows_of(const ir::Value& operand, const Side& side, int out_axis, const Shape& out) {
  if (operand.rows < 0) return operand.rows;
  if (operand.rows == side.summed_axis) return kMixedRows;
  if (operand.rows == side.kept_axis) return out_axis;
  const int axis = operand.rows + out.rank() - operand.shape.rank();
  return out[axis] == operand.shape[operand.rows] ? axis : kMixedRows;
}

/// Which of the two would fit the other way around.
std::string transposing_hint(const Side& left, const Side& right, bool a, bool b) {
  if (left.summed == right.kept) return fmt::format("write `transpose_b: {}`", !b);
  if (left.kept == right.summed) return fmt::format("write `transpose_a: {}`", !a);
  return "match the columns of the first operand to the rows of the second";
}

void infer_matmul(Inference& inference) {
  for (size_t i = 0; i < 2; ++i)
    if (inference.shape(i).rank() < 2)
      inference
          .bad_operand(i, Diagnosis::kRankMismatch,
                       fmt::format("{} has fewer than 2 dimensions; expected a matrix",
                                   inference.shape(i).str()))
          .with_hint("use `expand_dims` to make a vector a row or a column");
  if (inference.failed()) return;
  const ir::Value& a = inference.operand(0);
  const ir::Value& b = inference.operand(1);
  const auto transpose_a = inference.attribute<bool>("transpose_a");
  const auto transpose_b = inference.attribute<bool>("transpose_b");
  const Side left = side_of(a.shape, !transpose_a), right = side_of(b.shape, transpose_b);
  if (!inference.same_dtype()) return;
  if (left.summed != right.summed) {
    inference
        .bad_operand(1, Diagnosis::kShapeMismatch,
                     fmt::format("cannot multiply {} by {}: {} columns against {} rows",
                                 a.shape.str(), b.shape.str(), left.summed, right.summed))
        .with_hint(transposing_hint(left, right, transpose_a, transpose_b));
    return;
  }
  const auto batch = broadcast(left.batch, right.batch);
  if (!batch) {
    inference
        .bad_operand(1, Diagnosis::kShapeMismatch,
                     fmt::format("the leading dimensions of {} and {} do not broadcast",
                                 a.shape.str(), b.shape.str()))
        .with_hint("align the leading dimensions at the right: sizes must be equal or 1");
    return;
  }
  std::vector<int64_t> extents = batch->extents();
  extents.push_back(left.kept);
  extents.push_back(right.kept);
  const Shape out(std::move(extents));
  const int rows =
      common_rows(rows_of(a, left, out.rank() - 2, out), rows_of(b, right, out.rank() - 1, out));
  inference.result(inference.number(), out, rows);
}

/// With dy the gradient of y = a b: da = dy b^T, db = a^T dy; a transposed operand has the
/// transposed gradient. da comes first, so that a variable b is read no more when db is made.
std::vector<ir::ValueId> matmul_gradient(GradientContext& context) {
  const bool transpose_a = context.node.attributes.get<bool>("transpose_a");
  const bool transpose_b = context.node.attributes.get<bool>("transpose_b");
  const ir::ValueId a = context.operand(0), b = context.operand(1), dy = context.gradient();
  const auto product = [&](size_t i, ir::ValueId left, bool transpose_left, ir::ValueId right,
                           bool transpose_right) {
    const Shape& y = context.value_of(dy).shape;
    const bool copied = leading(context.value_of(context.operand(i)).shape) != leading(y);
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

std::span<const OpDef> matmul() {
  static const OpDef kOps[] = {{
      .name = "matmul",
      .doc = "Matrix product over the last two dimensions; leading dimensions broadcast.",
      .formula = "y = a b",
      .operands = {{"a", "(..., m, k), or (..., k, m) with `transpose_a`"},
                   {"b", "(..., k, n), or (..., n, k) with `transpose_b`"}},
      .attributes = {{"transpose_a", AttributeType::kBool, "false",
                      "transpose the last two axes of a"},
                     {"transpose_b", AttributeType::kBool, "false",
                      "transpose the last two axes of b"}},
      .infer = infer_matmul,
      .gradient = matmul_gradient,
      .examples = {"matmul(f32[3,4], f32[4,2])", "matmul(f32[4,3], f32[4,2]) transpose_a=true",
                   "matmul(f32[3,4], f32[2,4]) transpose_b=true",
                   "matmul(f32[4,3], f32[2,4]) transpose_a=true transpose_b=true",
                   "matmul(f32[2,3,4], f32[4,5])", "matmul(f32[2,1,3,4], f32[5,4,2])",
                   "matmul(f32[33,65], f32[65,17])"},
  }};
  return kOps;
}

}  // namespace flow::defs
