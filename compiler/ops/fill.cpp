// Constants.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/families.h"
#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::defs {
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
      fmt::format("cannot store {} {}as {}", shortest(value),
                  !is_float(dtype) && std::abs(value) > kLastExact ? "exactly " : "",
                  name_of(dtype)));
  return {};
}

std::vector<AttributeDef> fill_attributes() {
  return {{.name = "value",
           .type = AttributeType::kNumber,
           .fallback = "",
           .doc = "value of every element; for bool also `true` or `false`",
           .instead = "for an array, add an input: `{shape: [3], dtype: float32, rows: false, "
                      "from: {npy: FILE}}`"},
          {.name = "shape",
           .type = AttributeType::kIntegers,
           .fallback = "[]",
           .doc = "shape of the result",
           .min = 1},
          {"dtype", AttributeType::kDType, "float32", "dtype of the result"}};
}

}  // namespace

std::span<const OpDef> fill() {
  static const OpDef kOps[] = {
      {
          .name = "constant",
          .doc = "A tensor filled with one value.",
          .formula = "y = value",
          .operands = {},
          .attributes = fill_attributes(),
          .expand = expand_constant,
      },
      {
          .name = "fill",
          .doc = "A tensor filled with one value.",
          .formula = "y = value",
          .operands = {},
          .attributes = fill_attributes(),
          .infer = infer_fill,
          .internal = true,
          .examples = {"fill() value=0.5 shape=[3,4]", "fill() value=7 dtype=int32"},
      }};
  return kOps;
}

}  // namespace flow::defs
