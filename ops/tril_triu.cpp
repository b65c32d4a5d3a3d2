// One side of a diagonal kept, the other made zero.
#include <fmt/format.h>

#include "ops/families.h"

namespace flow::ops {
namespace {

void infer_triangle(Call& call) {
  if (call.shape(0).rank() >= 2)
    infer_like_operand(call);
  else
    call.bad_operand(0, Reason::kRankMismatch,
                     fmt::format("{} has fewer than 2 dimensions; expected (..., rows, columns)",
                                 call.shape(0).str()));
}

OpSpec triangle_op(std::string_view name, std::string_view doc, std::string_view formula,
                   std::string_view numpy, std::vector<std::string_view> examples) {
  return {
      .name = name,
      .doc = doc,
      .formula = formula,
      .operands = {{"in", "(..., rows, columns)", Accepts::kAny}},
      .attributes = {{.name = "diagonal",
                      .type = AttributeType::kInteger,
                      .fallback = "0",
                      .doc = "offset from the main diagonal: positive is above, negative is below",
                      .min = -static_cast<double>(kMaxSize),
                      .max = static_cast<double>(kMaxSize)}},
      .plan_attributes = {{"diagonal", Kind::kOffset}},
      .infer = infer_triangle,
      .in_place = {0},
      .flops = {0},
      .numpy = numpy,
      .examples = std::move(examples)};
}

}  // namespace

std::span<const OpSpec> tril_triu() {
  static const OpSpec kOps[] = {
      triangle_op("tril", "Lower triangle: keeps elements on and below a diagonal, zero elsewhere.",
                  "y[i, j] = x[i, j] where j - i <= diagonal, else 0", "np.tril(x, diagonal)",
                  {"tril(f32[4,4])", "tril(f32[2,3,5]) diagonal=1", "tril(f32[5,3]) diagonal=-2",
                   "tril(bool[3,3])", "tril(i64[2,2]) diagonal=-5"}),
      triangle_op("triu", "Upper triangle: keeps elements on and above a diagonal, zero elsewhere.",
                  "y[i, j] = x[i, j] where j - i >= diagonal, else 0", "np.triu(x, diagonal)",
                  {"triu(f32[4,4])", "triu(f32[2,3,5]) diagonal=1", "triu(f32[5,3]) diagonal=-2",
                   "triu(i32[3,4]) diagonal=9"}),
  };
  return kOps;
}

}  // namespace flow::ops
