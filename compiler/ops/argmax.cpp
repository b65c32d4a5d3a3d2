// Where the largest and the smallest element is.
#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

void infer_argmax(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& x = inference.operand(0);
  std::vector<int64_t> extents = x.shape.extents();
  extents.erase(extents.begin() + *axis);
  int rows = x.rows;
  if (rows >= 0) rows = rows == *axis ? ir::kMixedRows : rows - (rows > *axis ? 1 : 0);
  inference.result(DType::kInt64, Shape(std::move(extents)), rows);
}

OpDef place(std::string_view name, std::string_view doc, std::string_view formula,
            std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
          .attributes = {{"axis", AttributeType::kInteger, "-1", "axis to search"}},
          .infer = infer_argmax,
          .examples = std::move(examples)};
}

}  // namespace

std::span<const OpDef> argmax() {
  static const OpDef kOps[] = {
      place("argmax", "Index of the largest element along an axis, as int64; on ties, the first.",
            "y = the first i with x[i] = max x",
            {"argmax(f32[3,4])", "argmax(f32[2,3,4]) axis=1", "argmax(i32[6])",
             "argmax(u8[3,4]) axis=0"}),
      place("argmin", "Index of the smallest element along an axis, as int64; on ties, the first.",
            "y = the first i with x[i] = min x",
            {"argmin(f32[3,4])", "argmin(f32[2,3,4]) axis=1", "argmin(u8[3,4]) axis=0"}),
  };
  return kOps;
}

}  // namespace flow::defs
