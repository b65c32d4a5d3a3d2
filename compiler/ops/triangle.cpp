// One side of a diagonal kept, the other made zero.
#include <fmt/format.h>

#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

void infer_triangle(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  if (x.shape.rank() >= 2)
    inference.result(x.dtype, x.shape, x.rows);
  else
    inference.bad_operand(
        0, Diagnosis::kRankMismatch,
        fmt::format("{} has fewer than 2 dimensions; expected (..., rows, columns)",
                    x.shape.str()));
}

std::vector<ir::ValueId> triangle_gradient(GradientContext& context) {
  return {context.add(context.node.op->name, 0, {context.gradient()},
                      {{"diagonal", *context.node.attributes.find("diagonal")}})};
}

OpDef triangle_op(std::string_view name, std::string_view doc, std::string_view formula,
                  std::vector<std::string_view> examples) {
  return {
      .name = name,
      .doc = doc,
      .formula = formula,
      .operands = {{"in", "(..., rows, columns)", Accepts::kAny}},
      .attributes = {{.name = "diagonal",
                      .type = AttributeType::kInteger,
                      .fallback = "0",
                      .doc = "offset from the main diagonal: positive is above, negative is below",
                      .min = -INT32_MAX,
                      .max = INT32_MAX}},
      .infer = infer_triangle,
      .gradient = triangle_gradient,
      .examples = std::move(examples)};
}

}  // namespace

std::span<const OpDef> triangle() {
  static const OpDef kOps[] = {
      triangle_op("tril", "Lower triangle: keeps elements on and below a diagonal, zero elsewhere.",
                  "y[i, j] = x[i, j] where j - i <= diagonal, else 0",
                  {"tril(f32[4,4])", "tril(f32[2,3,5]) diagonal=1", "tril(f32[5,3]) diagonal=-2",
                   "tril(bool[3,3])", "tril(i64[2,2]) diagonal=-5"}),
      triangle_op("triu", "Upper triangle: keeps elements on and above a diagonal, zero elsewhere.",
                  "y[i, j] = x[i, j] where j - i >= diagonal, else 0",
                  {"triu(f32[4,4])", "triu(f32[2,3,5]) diagonal=1", "triu(f32[5,3]) diagonal=-2",
                   "triu(i32[3,4]) diagonal=9"}),
  };
  return kOps;
}

}  // namespace flow::defs
