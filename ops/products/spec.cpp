// The records of products of matrices, of vectors, and of tensors by the names of their axes.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

Shape leading(const Shape& shape) { return shape.first(shape.rank() - 2); }

/// An operand in the terms of the product.
struct Side {
  Shape batch;     // leading dimensions
  int64_t kept;    // rows of a, columns of b
  int64_t summed;  // the extent that both operands share
  int kept_axis;   // the index of the kept axis in the operand
  int summed_axis;
};

Side side_of(const Shape& shape, bool summed_last) {
  const int last = shape.rank() - 1;
  const int kept = summed_last ? last - 1 : last;
  const int summed = summed_last ? last : last - 1;
  return {leading(shape), shape[kept], shape[summed], kept, summed};
}

/// Returns the axis of the product that corresponds to the batch axis of an operand.
int batch_of(const Operand& operand, const Side& side, int out_axis, const Shape& out) {
  if (operand.batch_axis < 0) return operand.batch_axis;
  if (operand.batch_axis == side.summed_axis) return kBatchReduced;
  if (operand.batch_axis == side.kept_axis) return out_axis;
  const int axis = operand.batch_axis + out.rank() - operand.shape.rank();
  return out[axis] == operand.shape[operand.batch_axis] ? axis : kBatchReduced;
}

/// Returns true if the operand has no batch axis, or if the product sums over it.
bool sums_rows_alone(const Operand& operand, const Side& side) {
  return operand.batch_axis == kNoBatch || operand.batch_axis == side.summed_axis;
}

/// Returns a hint that names the operand that would fit if it were transposed.
std::string transposing_hint(const Side& left, const Side& right, bool a, bool b) {
  if (left.summed == right.kept) return fmt::format("write `transpose_b: {}`", !b);
  if (left.kept == right.summed) return fmt::format("write `transpose_a: {}`", !a);
  return "match the columns of the first operand to the rows of the second";
}

void infer_matmul(Call& call) {
  for (size_t i = 0; i < 2; ++i)
    if (call.shape(i).rank() < 2)
      call.bad_operand(
              i, Reason::kRankMismatch,
              fmt::format("{} has fewer than 2 dimensions; expected a matrix", call.shape(i).str()))
          .with_hint("use `expand_dims` to make a vector a row or a column");
  if (call.failed()) return;
  const Operand& a = call.operand(0);
  const Operand& b = call.operand(1);
  const auto transpose_a = call.attribute<bool>("transpose_a");
  const auto transpose_b = call.attribute<bool>("transpose_b");
  const Side left = side_of(a.shape, !transpose_a), right = side_of(b.shape, transpose_b);
  if (!call.same_dtype()) return;
  if (left.summed != right.summed) {
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("cannot multiply {} by {}: {} columns against {} rows",
                                 a.shape.str(), b.shape.str(), left.summed, right.summed))
        .with_hint(transposing_hint(left, right, transpose_a, transpose_b));
    return;
  }
  const auto batch = broadcast(left.batch, right.batch);
  if (!batch) {
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("the leading dimensions of {} and {} do not broadcast",
                                 a.shape.str(), b.shape.str()))
        .with_hint("align the leading dimensions at the right: sizes must be equal or 1");
    return;
  }
  const Shape out = replaced_axes(*batch, batch->rank(), 0, {left.kept, right.kept});
  const int batch_axis =
      common_batch(batch_of(a, left, out.rank() - 2, out), batch_of(b, right, out.rank() - 1, out));
  const bool summed = sums_rows_alone(a, left) && sums_rows_alone(b, right);
  call.result(call.compute_dtype(), out, batch_axis, summed ? Combine::kSum : Combine::kNone);
}

/// Returns 2 M N K for each leading index.
double matmul_flops(std::span<const Shape> operands, const Shape& result,
                    const Attributes& attributes) {
  const Shape& a = operands[0];
  const int64_t depth = a[a.rank() - (attributes.get<bool>("transpose_a") ? 2 : 1)];
  return 2 * static_cast<double>(depth) * static_cast<double>(result.elements());
}

}  // namespace

std::vector<OpSpec> products() {
  return {
      {.name = "matmul",
       .doc = "Matrix product over the last two dimensions; leading dimensions broadcast.",
       .formula = "y = a b",
       .operands = {{.name = "a",
                     .doc = "(..., m, k), or (..., k, m) with `transpose_a`",
                     .low_precision = true},
                    {.name = "b",
                     .doc = "(..., k, n), or (..., n, k) with `transpose_b`",
                     .low_precision = true}},
       .attributes = {{"transpose_a", AttributeType::kBool, "false",
                       "transpose the last two axes of a"},
                      {"transpose_b", AttributeType::kBool, "false",
                       "transpose the last two axes of b"}},
       .infer = infer_matmul,
       .product = true,
       .linear = {0, 1},
       .takes = {Epilogue::kBias, Epilogue::kRelu, Epilogue::kCast, Epilogue::kUpdate},
       .bias_axis = -1,
       .layer = "dense",
       .flops = {.product = matmul_flops},
       .numpy = "(np.swapaxes(a, -1, -2) if transpose_a else a) @ "
                "(np.swapaxes(b, -1, -2) if transpose_b else b)",
       .examples = {"matmul(f32[3,4], f32[4,2])", "matmul(f32[4,3], f32[4,2]) transpose_a=true",
                    "matmul(f32[3,4], f32[2,4]) transpose_b=true",
                    "matmul(f32[4,3], f32[2,4]) transpose_a=true transpose_b=true",
                    "matmul(f32[2,3,4], f32[4,5])", "matmul(f32[2,1,3,4], f32[5,4,2])",
                    "matmul(f32[33,65], f32[65,17])"}},
      {.name = "einsum",
       .doc = "Multiplies tensors along axes of equal names and sums over axes that the result "
              "does not name, as NumPy's einsum does.",
       .formula = "y[i, k] = sum over j of a[i, j] b[j, k], for \"ij, jk -> ik\"",
       .operands = {{.name = "in", .doc = "tensors of the equation's terms", .variadic = true}},
       .attributes = {{"equation", AttributeType::kEquation, "",
                       "a letter for each axis, terms separated by commas, `...` for other axes; "
                       "without `->`, the result has the letters that occur once, in order"}},
       .numpy = "np.einsum(equation, *x)",
       .examples = {"einsum(f32[3,4], f32[4,5]) equation=ij,jk->ik", "einsum(f32[3,4]) equation=ji",
                    "einsum(f32[2,3,4], f32[2,5,4]) equation=bij,bkj->bki",
                    "einsum(f32[3,4], f32[4]) equation=ij,j",
                    "einsum(f32[3,4,4]) equation=...ii->...i", "einsum(f32[4,4]) equation=ii",
                    "einsum(f32[3], f32[4]) equation=i,j->ji",
                    "einsum(f32[3,4], f32[4,5], f32[5,3]) equation=ij,jk,ki->",
                    "einsum(f32[2,1,3,4], f32[5,4,6]) equation=...ij,...jk->...ik",
                    "einsum(f32[2,3,4], f32[2,3,4]) equation=ijk,ijk->ij",
                    "einsum(f32[2,3,4]) equation=ijk->k"}},
      {.name = "dot",
       .doc = "Dot products of vectors along the last axis; leading axes broadcast.",
       .formula = "y[...] = sum of a[..., k] b[..., k] over k",
       .operands = {{"a", "(..., K)"}, {"b", "(..., K)"}},
       .numpy = "(a * b).sum(-1)",
       .examples = {"dot(f32[7], f32[7])", "dot(f32[4,2,5], f32[2,5])",
                    "dot(f32[3,1,6], f32[4,6])"}},
      {.name = "outer",
       .doc = "Products of all pairs of two vectors along the last axis; leading axes broadcast.",
       .formula = "y[..., i, j] = a[..., i] b[..., j]",
       .operands = {{"a", "(..., N)"}, {"b", "(..., M)"}},
       .numpy = "a[..., :, None] * b[..., None, :]",
       .examples = {"outer(f32[3], f32[4])", "outer(f32[2,3], f32[2,5])",
                    "outer(f32[4,1,3], f32[2,1])"}},
  };
}

}  // namespace flow::ops
