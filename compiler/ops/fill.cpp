// Constants.
#include "compiler/ops/families.h"

namespace flow::ops {
namespace {

void infer_fill(Inference& inference) {
  inference.result(inference.attribute<DType>("dtype"),
                   Shape(inference.attribute<std::vector<int64_t>>("shape")), ir::kNoRows);
}

}  // namespace

std::span<const OpDef> fill() {
  static const OpDef kOps[] = {{
      .name = "fill",
      .doc = "A tensor of one value.",
      .formula = "y = value",
      .operands = {},
      .attributes = {{"value", AttributeType::kNumber, "", "of every element"},
                     {.name = "shape",
                      .type = AttributeType::kIntegers,
                      .fallback = "[]",
                      .doc = "of the result",
                      .min = 1},
                     {"dtype", AttributeType::kDType, "float32", "of the result"}},
      .infer = infer_fill,
      .internal = true,
      .examples = {"fill() value=0.5 shape=[3,4]", "fill() value=7 dtype=int32"},
  }};
  return kOps;
}

}  // namespace flow::ops
