// The records of reductions over axes.
#include "ops/reduce/reduce.h"

#include <algorithm>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

bool is_among(const Integers& axes, int axis) {
  return std::ranges::find(axes, int64_t{axis}) != axes.end();
}

void normalize_reduce(Call& call, Attributes& attributes) { normalize_axes(call, attributes, 0); }

template <Combine kHow>
void infer_reduce(Call& call) {
  const Operand& x = call.operand(0);
  if (!have_axes(call, x.shape)) return;
  const Integers& axes = call.integers("axes");
  const bool keepdims = call.attribute<bool>("keepdims");
  int batch_axis = x.batch_axis;
  if (batch_axis >= 0 && is_among(axes, batch_axis))
    batch_axis = kBatchReduced;
  else if (batch_axis >= 0 && !keepdims)
    batch_axis -= static_cast<int>(
        std::ranges::count_if(axes, [&](int64_t axis) { return axis < x.batch_axis; }));
  call.result(x.dtype, reduced_shape(x.shape, axes, keepdims), batch_axis,
              combined(x.batch_axis, kHow));
}

/// Resolves the axes of a gradient for operand 1, which is the operand of the reduction.
void normalize_reduce_grad(Call& call, Attributes& attributes) {
  normalize_axes(call, attributes, 1);
}

/// Returns the axis of the reduction's operand that is the batch axis of its result.
int unreduced_batch(int batch_axis, const Integers& axes, bool keepdims) {
  if (batch_axis < 0 || keepdims) return batch_axis;
  for (const int64_t axis : axes)
    if (axis <= batch_axis) ++batch_axis;
  return batch_axis;
}

void infer_reduce_grad(Call& call) {
  const Operand& x = call.operand(1);
  if (!have_axes(call, x.shape)) return;
  const Integers& axes = call.integers("axes");
  const bool keepdims = call.attribute<bool>("keepdims");
  const Shape results = reduced_shape(x.shape, axes, keepdims);
  if (!call.have_shape(0, 1, results) || !call.have_shape(2, call.operands(), results)) return;
  const int batch_axis =
      common_batch(unreduced_batch(call.operand(0).batch_axis, axes, keepdims), x.batch_axis);
  // Along the reduced axes, the gradient of an element depends on other elements.
  call.result(x.dtype, x.shape, is_among(axes, batch_axis) ? kBatchReduced : batch_axis);
}

std::vector<AttributeSpec> reduce_attributes() {
  return {axes_attribute("axis to reduce, or a list of axes"),
          {"keepdims", AttributeType::kBool, "false", "keep the reduced axes with size 1"}};
}

/// `kHow` is the operation that combines the reductions of all shards' rows.
template <Combine kHow>
OpSpec reduction(std::string_view name, std::string_view doc, std::string_view formula,
                 std::string_view numpy, Accepts accepts, std::vector<std::string_view> examples) {
  constexpr bool kLinear = kHow == Combine::kSum || kHow == Combine::kMean;
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape", accepts}},
          .attributes = reduce_attributes(),
          .plan_attributes = {axes_in_plans()},
          .normalize = normalize_reduce,
          .infer = infer_reduce<kHow>,
          .linear = kLinear ? std::vector<size_t>{0} : std::vector<size_t>(),
          .flops = {1, Flops::Each::kFirst},
          .numpy = numpy,
          .examples = std::move(examples)};
}

OpSpec reduction_grad(std::string_view name, std::string_view doc, std::string_view formula,
                      std::vector<OperandSpec> operands) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = std::move(operands),
          .attributes = reduce_attributes(),
          .plan_attributes = {axes_in_plans()},
          .normalize = normalize_reduce_grad,
          .infer = infer_reduce_grad,
          .linear = {0},
          .internal = true};
}

}  // namespace

Shape reduced_shape(const Shape& shape, const Integers& axes, bool keepdims) {
  Integers extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!is_among(axes, axis))
      extents.push_back(shape[axis]);
    else if (keepdims)
      extents.push_back(1);
  }
  return Shape(std::move(extents));
}

std::vector<OpSpec> reduce() {
  return {
      reduction<Combine::kSum>("reduce_sum", "Sum over axes; integers wrap around.", "y = sum x",
                               "np.sum(x, axis, x.dtype, keepdims=keepdims)", Accepts::kNumber,
                               {"reduce_sum(f32[3,4])", "reduce_sum(f32[2,3,4]) axis=1",
                                "reduce_sum(f32[2,3,4]) axis=[0,-1] keepdims=true",
                                "reduce_sum(f32[5000,3]) axis=0", "reduce_sum(u8[40,3]) axis=0"}),
      reduction<Combine::kMean>(
          "reduce_mean", "Mean over axes.", "y = (sum x) / count",
          "np.mean(x, axis, keepdims=keepdims)", Accepts::kFloat,
          {"reduce_mean(f32[3,4])", "reduce_mean(f32[2,3,4]) axis=1",
           "reduce_mean(f32[2,3,4]) axis=[0,-1] keepdims=true", "reduce_mean(f32[5000])"}),
      reduction<Combine::kMax>(
          "reduce_max",
          "Maximum over axes; NaN if any element is NaN. On ties, the first element receives "
          "the gradient.",
          "y = max x", "np.max(x, axis, keepdims=keepdims)", Accepts::kNumber,
          {"reduce_max(f32[3,4])", "reduce_max(f32[2,3,4]) axis=1",
           "reduce_max(f32[2,3,4]) axis=[0,-1] keepdims=true", "reduce_max(i8[5,3]) axis=0"}),
      reduction<Combine::kMin>(
          "reduce_min",
          "Minimum over axes; NaN if any element is NaN. On ties, the first element receives "
          "the gradient.",
          "y = min x", "np.min(x, axis, keepdims=keepdims)", Accepts::kNumber,
          {"reduce_min(f32[3,4])", "reduce_min(f32[2,3,4]) axis=1", "reduce_min(i64[5])"}),
      reduction<Combine::kNone>(
          "reduce_prod",
          "Product over axes; integers wrap around. The gradient is exact for zeros, too.",
          "y = prod x", "np.prod(x, axis, x.dtype, keepdims=keepdims)", Accepts::kNumber,
          {"reduce_prod(f32[3,4])", "reduce_prod(f32[2,3,4]) axis=1",
           "reduce_prod(f32[2,3,4]) axis=[0,-1] keepdims=true", "reduce_prod(i32[5,3]) axis=0"}),
      reduction<Combine::kMax>("reduce_any", "True if any element along the axes is true.",
                               "y = x[0] or x[1] or ...", "np.any(x, axis, keepdims=keepdims)",
                               Accepts::kBool,
                               {"reduce_any(bool[3,4])", "reduce_any(bool[2,3,4]) axis=1"}),
      reduction<Combine::kMin>(
          "reduce_all", "True if all elements along the axes are true.",
          "y = x[0] and x[1] and ...", "np.all(x, axis, keepdims=keepdims)", Accepts::kBool,
          {"reduce_all(bool[3,4])", "reduce_all(bool[2,3,4]) axis=[0,2] keepdims=true"}),
      reduction<Combine::kNone>(
          "logsumexp",
          "Logarithm of the sum of exponentials over axes, numerically stable for large inputs.",
          "y = ln(sum e^x)", "np.log(np.sum(np.exp(x), axis, keepdims=keepdims))", Accepts::kFloat,
          {"logsumexp(f32[3,4])", "logsumexp(f32[2,3,4]) axis=1",
           "logsumexp(f32[2,3,4]) axis=[0,-1] keepdims=true", "logsumexp(f32[7000])"}),
      reduction_grad("reduce_extreme_grad", "Gradient of reduce_max and reduce_min.",
                     "dx = dy at the first x equal to y, else 0",
                     {{"dy", "same shape as the result"}, {"x", "any shape"}, {"y", "the result"}}),
      reduction_grad("reduce_prod_grad", "Gradient of reduce_prod.",
                     "dx = dy times the product of the other elements",
                     {{"dy", "same shape as the result"}, {"x", "any shape"}}),
  };
}

}  // namespace flow::ops
