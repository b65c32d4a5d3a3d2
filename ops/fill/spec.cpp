// Constants.
#include <fmt/format.h>

#include "ops/core/count_attribute.h"
#include "ops/core/families.h"
#include "runtime/base/representable.h"

namespace flow::ops {
namespace {

void infer_fill(Call& call) {
  const auto dtype = call.attribute<DType>("dtype");
  const auto value = call.attribute<double>("value");
  if (!is_representable(value, dtype))
    call.bad_attribute("value", Reason::kBadAttribute,
                       fmt::format("{} is not a valid {}", value, name_of(dtype)));
  else
    call.result(dtype, Shape(call.integers("shape")), kNoBatch);
}

std::vector<AttributeSpec> fill_attributes() {
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

std::span<const OpSpec> fill() {
  static const OpSpec kOps[] = {
      {
          .name = "constant",
          .doc = "A tensor filled with one value.",
          .formula = "y = value",
          .operands = {},
          .attributes = fill_attributes(),
      },
      {
          .name = "eye",
          .doc = "A matrix with ones on a diagonal and zeros elsewhere.",
          .formula = "y[i, j] = j - i == diagonal ? 1 : 0",
          .operands = {},
          .attributes = {count_attribute("rows", "number of rows"),
                         count_attribute("columns", "number of columns", "rows"),
                         {.name = "diagonal",
                          .type = AttributeType::kInteger,
                          .fallback = "0",
                          .doc = "offset from the main diagonal: positive is above, negative is "
                                 "below",
                          .min = -static_cast<double>(kMaxSize),
                          .max = static_cast<double>(kMaxSize)},
                         {"dtype", AttributeType::kDType, "float32", "dtype of the result"}},
          .numpy = "np.eye(rows, columns, diagonal).astype(dtype)",
          .examples = {"eye() rows=4 columns=4", "eye() rows=3 columns=5 diagonal=1",
                       "eye() rows=4 columns=2 diagonal=-2 dtype=int32",
                       "eye() rows=2 columns=2 dtype=bool"},
      },
      {
          .name = "fill",
          .doc = "A tensor filled with one value.",
          .formula = "y = value",
          .operands = {},
          .attributes = fill_attributes(),
          .plan_attributes = {{"dtype", Kind::kDType},
                              {.name = "shape", .kind = Kind::kShape, .of_result = true},
                              {"value", Kind::kValue}},
          .infer = infer_fill,
          .flops = {0},
          .internal = true,
          .examples = {"fill() value=0.5 shape=[3,4]", "fill() value=7 dtype=int32"},
      }};
  return kOps;
}

}  // namespace flow::ops
