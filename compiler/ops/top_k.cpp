// The largest elements along an axis, and where they are.
#include <fmt/format.h>

#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

void infer_top_k(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const ir::Value& x = inference.operand(0);
  const auto k = inference.attribute<int64_t>("k");
  if (k > x.shape[*axis]) {
    inference.bad_attribute("k", Diagnosis::kShapeMismatch,
                            fmt::format("`k` is {} for axis {} of {}; expected at most {}", k,
                                        *axis, x.shape.str(), x.shape[*axis]));
    return;
  }
  Shape out = x.shape;
  out[*axis] = k;
  const int rows = rows_beside(x.rows, *axis);
  inference.result(x.dtype, out, rows);
  inference.result(DType::kInt64, out, rows);
}

void infer_top_k_grad(Inference& inference) {
  const ir::Value& dy = inference.operand(0);
  const auto axis = static_cast<int>(inference.attribute<int64_t>("axis"));
  Shape dx = dy.shape;
  dx[axis] = inference.attribute<int64_t>("extent");
  inference.result(dy.dtype, std::move(dx), rows_beside(dy.rows, axis));
}

std::vector<ir::ValueId> top_k_gradient(GradientContext& context) {
  const auto axis = context.node.attributes.get<int64_t>("axis");
  const int64_t extent = context.value_of(context.operand(0)).shape[static_cast<int>(axis)];
  return {context.add("top_k_grad", 0, {context.gradient(), context.result(1)},
                      {{"axis", axis}, {"extent", extent}})};
}

}  // namespace

std::span<const OpDef> top_k() {
  static const OpDef kOps[] = {
      {
          .name = "top_k",
          .doc = "The k largest elements along an axis in descending order, and their int64 "
                 "indices; on ties, the first.",
          .formula = "values[..., j, ...] = x[..., indices[..., j, ...], ...]",
          .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
          .attributes = {{.name = "k",
                          .type = AttributeType::kInteger,
                          .fallback = "",
                          .doc = "number of elements to keep",
                          .min = 1},
                         {"axis", AttributeType::kInteger, "-1", "axis to search"}},
          .results = {"values", "indices"},
          .infer = infer_top_k,
          .gradient = top_k_gradient,
          .examples = {"top_k(f32[3,7]) k=3", "top_k(f32[2,5,3]) k=2 axis=1", "top_k(f32[6]) k=6",
                       "top_k(i32[3,7]) k=4", "top_k(u8[5,2]) k=1 axis=0"},
      },
      {
          .name = "top_k_grad",
          .doc = "Gradient of top_k: zero except at the largest elements.",
          .formula = "dx[..., indices[..., j, ...], ...] = dy[..., j, ...]",
          .operands = {{"dy", "same shape as the values"},
                       {"indices", "same shape as the values", Accepts::kInteger}},
          .attributes = {{"axis", AttributeType::kInteger, "", "axis of the forward op"},
                         {"extent", AttributeType::kInteger, "", "size of the axis"}},
          .infer = infer_top_k_grad,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::defs
