// The records of argmax and argmin: the index of the largest or smallest element.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_argmax(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& x = call.operand(0);
  int batch_axis = batch_beside(x.batch_axis, *axis);
  if (batch_axis > *axis) --batch_axis;
  call.result(DType::kInt64, replaced_axes(x.shape, *axis, 1, {}), batch_axis);
}

OpSpec place_op(std::string_view name, std::string_view doc, std::string_view formula,
                std::string_view numpy, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
          .attributes = {axis_attribute("-1", "axis to search")},
          .normalize = normalize_axis,
          .infer = infer_argmax,
          .flops = {1, Flops::Each::kFirst},
          .numpy = numpy,
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpSpec> argmax() {
  return {
      place_op("argmax",
               "Index of the largest element along an axis, as int64; on ties, the first.",
               "y = the first i with x[i] = max x", "np.argmax(x, axis)",
               {"argmax(f32[3,4])", "argmax(f32[2,3,4]) axis=1", "argmax(i32[6])",
                "argmax(u8[3,4]) axis=0"}),
      place_op("argmin",
               "Index of the smallest element along an axis, as int64; on ties, the first.",
               "y = the first i with x[i] = min x", "np.argmin(x, axis)",
               {"argmin(f32[3,4])", "argmin(f32[2,3,4]) axis=1", "argmin(u8[3,4]) axis=0"}),
  };
}

}  // namespace flow::ops
