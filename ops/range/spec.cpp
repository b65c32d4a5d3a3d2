// Evenly spaced numbers.
#include <fmt/format.h>

#include <cmath>

#include "ops/core/count_attribute.h"
#include "ops/core/families.h"
#include "ops/core/stored_value.h"

namespace flow::ops {
namespace {

void infer_evenly_spaced(Call& call) {
  const auto dtype = call.attribute<DType>("dtype");
  if (!can_store(call, "first", dtype) || !can_store(call, "last", dtype)) return;
  call.result(dtype, Shape{call.attribute<int64_t>("count")}, kNoBatch);
}

AttributeSpec number_attribute(std::string_view name, std::string_view fallback,
                               std::string_view doc) {
  return {.name = name, .type = AttributeType::kNumber, .fallback = fallback, .doc = doc};
}

}  // namespace

std::span<const OpSpec> range() {
  static const OpSpec kOps[] = {
      {
          .name = "range",
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
                       "range() start=0.5 stop=2 step=0.25 dtype=float32"},
      },
      {
          .name = "linspace",
          .doc = "Evenly spaced numbers from `start` to `stop`, both included.",
          .formula = "y[i] = start + i (stop - start) / (num - 1)",
          .operands = {},
          .attributes = {number_attribute("start", "", "first number"),
                         number_attribute("stop", "", "last number"),
                         count_attribute("num", "count of numbers"),
                         {"dtype", AttributeType::kDType, "float32", "dtype of the result"}},
          .numpy = "np.linspace(start, stop, num).astype(dtype)",
          .examples = {"linspace() start=0 stop=1 num=11", "linspace() start=2 stop=-1 num=4",
                       "linspace() start=3 stop=5 num=1"},
      },
      {
          .name = "evenly_spaced",
          .doc = "Numbers at equal distances; both ends are exact.",
          .formula = "y[i] = first + i (last - first) / (count - 1)",
          .operands = {},
          .attributes = {number_attribute("first", "", "first number"),
                         number_attribute("last", "", "last number"),
                         count_attribute("count", "count of numbers"),
                         {"dtype", AttributeType::kDType, "", "dtype of the result"}},
          .plan_attributes = {{"count", Kind::kCount},
                              {"dtype", Kind::kDType},
                              {"first", Kind::kFinite},
                              {"last", Kind::kFinite}},
          .infer = infer_evenly_spaced,
          .flops = {0},
          .internal = true,
          .examples = {"evenly_spaced() first=0 last=9 count=10 dtype=int64",
                       "evenly_spaced() first=0.5 last=-2 count=7 dtype=float32",
                       "evenly_spaced() first=3 last=3 count=1 dtype=uint8"},
      },
  };
  return kOps;
}

}  // namespace flow::ops
