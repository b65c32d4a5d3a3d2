// The records of top_k, which finds the largest elements along an axis and their places, and of ops
// that sort.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Returns `shape` with `extent` along `axis`.
Shape with_extent(Shape shape, int axis, int64_t extent) {
  shape[axis] = extent;
  return shape;
}

void infer_top_k(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand& x = call.operand(0);
  const auto k = call.attribute<int64_t>("k");
  if (k > x.shape[*axis]) {
    call.bad_attribute("k", Reason::kShapeMismatch,
                       fmt::format("`k` is {} for axis {} of {}; expected at most {}", k, *axis,
                                   x.shape.str(), x.shape[*axis]));
    return;
  }
  const int batch_axis = batch_beside(x.batch_axis, *axis);
  const Shape out = with_extent(x.shape, *axis, k);
  call.result(x.dtype, out, batch_axis);
  call.result(DType::kInt64, out, batch_axis);
}

void infer_top_k_grad(Call& call) {
  const auto axis = axis_of(call);
  const Operand& dy = call.operand(0);
  if (!axis || !call.have_shape(1, 2, dy.shape)) return;
  const auto extent = call.attribute<int64_t>("extent");
  if (call.dtype(1) != DType::kInt64)
    call.bad_operand(
        1, Reason::kDTypeMismatch,
        fmt::format("the indices are {}; expected {}", name_of(call.dtype(1)), "int64"));
  else if (dy.shape[*axis] > extent)
    call.bad_attribute(
        "extent", Reason::kShapeMismatch,
        fmt::format("`extent` is {}; expected at least {}", extent, dy.shape[*axis]));
  else
    call.result(dy.dtype, with_extent(dy.shape, *axis, extent),
                batch_beside(common_batch(dy.batch_axis, call.operand(1).batch_axis), *axis));
}

std::vector<AttributeSpec> sorting_attributes() {
  return {axis_attribute("-1", "axis to sort along"),
          {"descending", AttributeType::kBool, "false", "sort from the largest to the smallest"}};
}

bool is_top_k_of(const Attributes& gradient, const Attributes& top, const Shape& x) {
  const auto axis = gradient.get<int64_t>("axis");
  return top.get<int64_t>("axis") == axis &&
         x[static_cast<int>(axis)] == gradient.get<int64_t>("extent");
}

}  // namespace

std::vector<OpSpec> top_k() {
  return {
      {.name = "top_k",
       .doc = "The k largest elements along an axis in descending order, and their int64 "
              "indices; on ties, the first.",
       .formula = "values[..., j, ...] = x[..., indices[..., j, ...], ...]",
       .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
       .attributes = {integer_attribute("k", "", "number of elements to keep", 1),
                      axis_attribute("-1", "axis to search")},
       .results = {{"values"}, {.name = "indices", .optional = true}},
       .normalize = normalize_axis,
       .infer = infer_top_k,
       .flops = {1, Flops::Each::kFirst},
       .examples = {"top_k(f32[3,7]) k=3", "top_k(f32[2,5,3]) k=2 axis=1", "top_k(f32[6]) k=6",
                    "top_k(i32[3,7]) k=4", "top_k(u8[5,2]) k=1 axis=0"}},
      {.name = "sort",
       .doc = "The elements along an axis in order; NaN counts as the largest.",
       .formula = "y[i] <= y[i + 1]",
       .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
       .attributes = sorting_attributes(),
       .numpy = "np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis)",
       .examples = {"sort(f32[3,5])", "sort(f32[2,4,3]) axis=1 descending=true", "sort(i32[7])",
                    "sort(u8[5,2]) axis=0"}},
      {.name = "argsort",
       .doc = "The int64 indices that sort an axis; of equal elements, the first comes first.",
       .formula = "x[y[i]] <= x[y[i + 1]]",
       .operands = {{"in", "any shape except a scalar", Accepts::kNumber}},
       .attributes = sorting_attributes(),
       .numpy = "np.argsort(-x if descending else x, axis, kind='stable')",
       .examples = {"argsort(f32[3,5])", "argsort(f32[2,4,3]) axis=1 descending=true",
                    "argsort(i32[40])", "argsort(i8[40,2]) axis=0 descending=true"}},
      {.name = "top_k_grad",
       .doc = "Gradient of top_k: zero except at the largest elements.",
       .formula = "dx[..., indices[..., j, ...], ...] = dy[..., j, ...]",
       .operands = {{"dy", "same shape as the values"},
                    integers("indices", "same shape as the values", limit_of_extent)},
       .attributes = {axis_attribute("", "axis of the forward op"),
                      extent_attribute("size of the axis")},
       .infer = infer_top_k_grad,
       .linear = {0},
       .origin = Origin{.operand = 1,
                        .op = "top_k",
                        .matches = is_top_k_of,
                        .expected = "the matching top_k"},
       .flops = {0},
       .internal = true},
  };
}

}  // namespace flow::ops
