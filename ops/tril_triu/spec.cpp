// The records of tril and triu, which keep one side of a diagonal and write zeros to the other.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// With several shards, only an axis before the rows can be the batch axis, because a shard does
/// not know the places of its rows.
void infer_triangle(Call& call) {
  const Operand& x = call.operand(0);
  const int rank = x.shape.rank();
  if (rank < 2)
    call.bad_operand(0, Reason::kRankMismatch,
                     fmt::format("{} has fewer than 2 dimensions; expected (..., rows, columns)",
                                 x.shape.str()));
  else if (call.job().shards > 1)
    call.result(x.dtype, x.shape, batch_before(x.batch_axis, rank - 2));
  else
    infer_like_operand(call);
}

OpSpec triangle_op(std::string_view name, std::string_view doc, std::string_view formula,
                   std::string_view numpy, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .doc = doc,
      .formula = formula,
      .operands = {{"in", "(..., rows, columns)", Accepts::kAny}},
      .attributes = {offset_attribute(
          "diagonal", "0", "offset from the main diagonal: positive is above, negative is below")},
      .infer = infer_triangle,
      .in_place = {0},
      .linear = {0},
      .flops = {0},
      .numpy = numpy,
      .examples = std::move(examples)};
}

}  // namespace

std::vector<OpSpec> tril_triu() {
  return {
      triangle_op("tril", "Lower triangle: keeps elements on and below a diagonal, zero elsewhere.",
                  "y[i, j] = x[i, j] where j - i <= diagonal, else 0", "np.tril(x, diagonal)",
                  {"tril(f32[4,4])", "tril(f32[2,3,5]) diagonal=1", "tril(f32[5,3]) diagonal=-2",
                   "tril(bool[3,3])", "tril(i64[2,2]) diagonal=-5"}),
      triangle_op("triu", "Upper triangle: keeps elements on and above a diagonal, zero elsewhere.",
                  "y[i, j] = x[i, j] where j - i >= diagonal, else 0", "np.triu(x, diagonal)",
                  {"triu(f32[4,4])", "triu(f32[2,3,5]) diagonal=1", "triu(f32[5,3]) diagonal=-2",
                   "triu(i32[3,4]) diagonal=9"}),
  };
}

}  // namespace flow::ops
