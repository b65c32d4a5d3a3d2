// Constants.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/families.h"
#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::ops {
namespace {

void infer_fill(Inference& inference) {
  inference.result(inference.attribute<DType>("dtype"),
                   Shape(inference.attribute<std::vector<int64_t>>("shape")), ir::kNoRows);
}

/// The user's word for it, whose value must be one of the dtype's.
ir::ValueId expand_constant(LayerContext& context) {
  const double value = context.attributes.get<double>("value");
  const auto dtype = context.attributes.get<DType>("dtype");
  const bool held = std::isfinite(value) ? can_hold(dtype, value) : is_float(dtype);
  // Numbers of the file are doubles: 2^53 may be its neighbour.
  if (held && (is_float(dtype) || std::abs(value) <= kLastExact))
    return context.add("fill", "", {}, context.attributes);
  context.site().bad_attribute(
      "value", Diagnosis::kBadAttribute,
      fmt::format("{} is no {}{}", shortest(value), name_of(dtype),
                  !is_float(dtype) && std::abs(value) > kLastExact ? " that is kept exactly" : ""));
  return {};
}

std::vector<AttributeDef> fill_attributes() {
  return {{.name = "value",
           .type = AttributeType::kNumber,
           .fallback = "",
           .doc = "of every element; of a bool `true` or `false`, too",
           .instead = "an array is an input: `{shape: [3], dtype: float32, rows: false, from: "
                      "{npy: FILE}}`"},
          {.name = "shape",
           .type = AttributeType::kIntegers,
           .fallback = "[]",
           .doc = "of the result",
           .min = 1},
          {"dtype", AttributeType::kDType, "float32", "of the result"}};
}

}  // namespace

std::span<const OpDef> fill() {
  static const OpDef kOps[] = {
      {
          .name = "constant",
          .doc = "A tensor of one value.",
          .formula = "y = value",
          .operands = {},
          .attributes = fill_attributes(),
          .expand = expand_constant,
      },
      {
          .name = "fill",
          .doc = "A tensor of one value.",
          .formula = "y = value",
          .operands = {},
          .attributes = fill_attributes(),
          .infer = infer_fill,
          .internal = true,
          .examples = {"fill() value=0.5 shape=[3,4]", "fill() value=7 dtype=int32"},
      }};
  return kOps;
}

}  // namespace flow::ops
