// The records of constants and evenly spaced numbers.
#include <cmath>

#include "ops/core/families.h"
#include "runtime/base/array.h"

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
                      "from: {npy: FILE}}`",
           .kind = Kind::kValue},
          extents_attribute("shape", "[]", "shape of the result"),
          {"dtype", AttributeType::kDType, "float32", "dtype of the result"}};
}

void infer_evenly_spaced(Call& call) {
  const auto dtype = call.attribute<DType>("dtype");
  if (!can_store(call, "first", dtype) || !can_store(call, "last", dtype)) return;
  call.result(dtype, Shape{call.attribute<int64_t>("count")}, kNoBatch);
}

}  // namespace

std::vector<OpSpec> constants() {
  return {
      {.name = "constant",
       .doc = "A tensor filled with one value.",
       .formula = "y = value",
       .operands = {},
       .attributes = fill_attributes()},
      {.name = "eye",
       .doc = "A matrix with ones on a diagonal and zeros elsewhere.",
       .formula = "y[i, j] = j - i == diagonal ? 1 : 0",
       .operands = {},
       .attributes = {count_attribute("rows", "number of rows"),
                      count_attribute("columns", "number of columns", "rows"),
                      offset_attribute(
                          "diagonal", "0",
                          "offset from the main diagonal: positive is above, negative is "
                          "below"),
                      {"dtype", AttributeType::kDType, "float32", "dtype of the result"}},
       .numpy = "np.eye(rows, columns, diagonal).astype(dtype)",
       .examples = {"eye() rows=4 columns=4", "eye() rows=3 columns=5 diagonal=1",
                    "eye() rows=4 columns=2 diagonal=-2 dtype=int32",
                    "eye() rows=2 columns=2 dtype=bool"}},
      {.name = "fill",
       .doc = "A tensor filled with one value.",
       .formula = "y = value",
       .operands = {},
       .attributes = fill_attributes(),
       .plan_attributes = {extents_of_result("shape")},
       .infer = infer_fill,
       .flops = {0},
       .internal = true,
       .examples = {"fill() value=0.5 shape=[3,4]", "fill() value=7 dtype=int32"}},
      {.name = "range",
       .doc = "Numbers from `start` on, `step` apart, before `stop`.",
       .formula = "y[i] = start + i step",
       .operands = {},
       .attributes = {number_attribute("start", "0", "first number"),
                      number_attribute("stop", "", "end, which is left out"),
                      number_attribute("step", "1", "distance; negative to count down"),
                      {"dtype", AttributeType::kDType, "int64", "dtype of the result"}},
       .numpy = "np.arange(start, stop, step).astype(dtype)",
       .examples = {"range() stop=7", "range() start=2 stop=9 step=3 dtype=int32",
                    "range() start=5 stop=-1 step=-2 dtype=int8",
                    "range() start=0.5 stop=2 step=0.25 dtype=float32"}},
      {.name = "linspace",
       .doc = "Evenly spaced numbers from `start` to `stop`, both included.",
       .formula = "y[i] = start + i (stop - start) / (num - 1)",
       .operands = {},
       .attributes = {number_attribute("start", "", "first number"),
                      number_attribute("stop", "", "last number"),
                      count_attribute("num", "count of numbers"),
                      {"dtype", AttributeType::kDType, "float32", "dtype of the result"}},
       .numpy = "np.linspace(start, stop, num).astype(dtype)",
       .examples = {"linspace() start=0 stop=1 num=11", "linspace() start=2 stop=-1 num=4",
                    "linspace() start=3 stop=5 num=1"}},
      {.name = "evenly_spaced",
       .doc = "Numbers at equal distances; both ends are exact.",
       .formula = "y[i] = first + i (last - first) / (count - 1)",
       .operands = {},
       .attributes = {number_attribute("first", "", "first number"),
                      number_attribute("last", "", "last number"),
                      count_attribute("count", "count of numbers"),
                      {"dtype", AttributeType::kDType, "", "dtype of the result"}},
       .infer = infer_evenly_spaced,
       .flops = {0},
       .internal = true,
       .examples = {"evenly_spaced() first=0 last=9 count=10 dtype=int64",
                    "evenly_spaced() first=0.5 last=-2 count=7 dtype=float32",
                    "evenly_spaced() first=3 last=3 count=1 dtype=uint8"}},
  };
}

}  // namespace flow::ops
