// Specifications of the ops that pick, replace or add to elements, by an index along one axis or by
// indices of several axes, and of bincount.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Returns the axis if the indices, operand 1, have the shape of operand 0 in all other axes.
/// Otherwise reports the mismatch and returns nothing.
std::optional<int> indexed_axis(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return {};
  Shape expected = call.shape(0);
  const Shape& indices = call.shape(1);
  if (indices.rank() == expected.rank()) expected[*axis] = indices[*axis];
  if (indices == expected) return axis;
  call.bad_operand(1, Reason::kShapeMismatch,
                   fmt::format("the indices are {} for {}; expected equal sizes except along axis "
                               "{}",
                               indices.str(), call.shape(0).str(), *axis));
  return {};
}

void infer_take_along_axis(Call& call) {
  const auto axis = indexed_axis(call);
  if (!axis) return;
  const Operand &x = call.operand(0), &indices = call.operand(1);
  call.result(x.dtype, indices.shape,
              common_batch(batch_beside(x.batch_axis, *axis), indices.batch_axis));
}

void infer_put_along_axis(Call& call) {
  const auto axis = indexed_axis(call);
  if (!axis || !call.same_dtype(0, 2) || !call.have_shape(2, 3, call.shape(1))) return;
  const Operand& x = call.operand(0);
  const int written = common_batch(call.operand(1).batch_axis, call.operand(2).batch_axis);
  call.result(x.dtype, x.shape, batch_beside(common_batch(x.batch_axis, written), *axis));
}

OperandSpec indices_operand() {
  return integers("indices",
                  "shape of x except for the size of the axis; integers in [0, size of the axis)",
                  limit_of_axis);
}

OpSpec writing_op(std::string_view name, Accepts accepts, std::string_view doc,
                  std::string_view formula, std::vector<std::string_view> examples) {
  return {.name = name,
          .doc = doc,
          .formula = formula,
          .operands = {{"in", "any shape except a scalar", accepts},
                       indices_operand(),
                       {"updates", "shape of the indices, dtype of x", accepts}},
          .attributes = {axis_attribute("", "axis of the indices")},
          .normalize = normalize_axis,
          .infer = infer_put_along_axis,
          .in_place = {0},
          .examples = std::move(examples)};
}

}  // namespace

std::vector<OpSpec> indexing() {
  return {
      {.name = "gather_nd",
       .doc = "Gathers elements or slices, each by indices of the first axes.",
       .formula = "y[..., :] = params[indices[..., 0], indices[..., 1], ..., :]",
       .operands = {{"params", "any shape except a scalar", Accepts::kAny},
                    {"indices",
                     "integers (..., K) in range of the first K axes after the batch axes",
                     Accepts::kInteger}},
       .attributes = {integer_attribute(
           "batch_dims", "0", "leading axes that both operands share, which are not indexed", 0,
           kMaxRank)},
       .numpy = "params[tuple(np.moveaxis(indices, -1, 0))] if batch_dims == 0 else "
                "np.stack([p[tuple(np.moveaxis(i, -1, 0))] for p, i in zip(params, indices)])",
       .examples = {"gather_nd(f32[10,12,3], i32[4,2])", "gather_nd(f32[10,12], i64[2,3,2])",
                    "gather_nd(f32[10,3], u8[5,1])", "gather_nd(i32[10], i32[1])",
                    "gather_nd(f32[4,10,11,2], i32[4,3,2]) batch_dims=1"}},
      {.name = "scatter_nd",
       .doc = "Replaces elements or slices, each by indices of the first axes, or adds to them. "
              "Of equal indices, the last replaces; additions are in their order.",
       .formula = "y = x, then y[indices[..., 0], ..., :] = updates[..., :]",
       .operands = {{"in", "any shape except a scalar", Accepts::kAny},
                    {"indices", "integers (..., K) in range of the first K axes",
                     Accepts::kInteger},
                    {"updates", "shape of what gather_nd gathers, dtype of x", Accepts::kAny}},
       .attributes = {choice_attribute("reduction", "replace",
                                       "add to elements instead of replacing them",
                                       {"replace", "add"})},
       .numpy = "scattered(x, indices, updates, reduction)",
       .examples = {"scatter_nd(f32[10,12,3], i32[4,2], f32[4,3])",
                    "scatter_nd(f32[10,12], i64[2,30,2], f32[2,30]) reduction=add",
                    "scatter_nd(u8[10,3], u8[5,1], u8[5,3])"}},
      {.name = "take_along_axis",
       .doc = "Picks elements along an axis, each by an index of its own.",
       .formula = "y[..., i, ...] = x[..., indices[..., i, ...], ...]",
       .operands = {{"in", "any shape except a scalar", Accepts::kAny}, indices_operand()},
       .attributes = {axis_attribute("", "axis to pick along")},
       .normalize = normalize_axis,
       .infer = infer_take_along_axis,
       .linear = {0},
       .moves_elements = true,
       .flops = {0},
       .numpy = "np.take_along_axis(x, indices, axis)",
       .examples = {"take_along_axis(f32[10,3], i32[4,3]) axis=0",
                    "take_along_axis(f32[4,10], i64[4,1]) axis=-1",
                    "take_along_axis(f32[2,10,3], u8[2,12,3]) axis=1",
                    "take_along_axis(i64[10], i8[3]) axis=0",
                    "take_along_axis(bool[3,10], i32[3,2]) axis=1"}},
      {.name = "bincount",
       .doc = "Counts how often each integer in [0, size) occurs, as int64.",
       .formula = "y[j] = number of i with x[i] = j",
       .operands = {{"in", "integers of any shape, in [0, size)", Accepts::kInteger}},
       .attributes = {count_attribute("size", "number of counts")},
       .numpy = "np.bincount(x.ravel(), minlength=size)",
       .examples = {"bincount(i32[40]) size=10", "bincount(u8[3,5]) size=12",
                    "bincount(i64[]) size=10"}},
      writing_op("put_along_axis", Accepts::kAny,
                 "Replaces elements along an axis, each by an index of its own; of equal indices, "
                 "the last counts.",
                 "y = x, then y[..., indices[..., i, ...], ...] = updates[..., i, ...] for each i",
                 {"put_along_axis(f32[10,3], i32[4,3], f32[4,3]) axis=0",
                  "put_along_axis(f32[4,10], i64[4,1], f32[4,1]) axis=-1",
                  "put_along_axis(f32[2,10,3], u8[2,12,3], f32[2,12,3]) axis=1",
                  "put_along_axis(u8[10], i8[3], u8[3]) axis=0"}),
      writing_op("add_along_axis", Accepts::kNumber,
                 "Adds to elements along an axis, each by an index of its own, in the order of the "
                 "indices; integers wrap around.",
                 "y = x, then y[..., indices[..., i, ...], ...] += updates[..., i, ...] for each i",
                 {"add_along_axis(f32[10,3], i32[4,3], f32[4,3]) axis=0",
                  "add_along_axis(f32[4,10], i64[4,1], f32[4,1]) axis=-1",
                  "add_along_axis(f32[2,10,3], u8[2,12,3], f32[2,12,3]) axis=1",
                  "add_along_axis(i8[10], i32[30], i8[30]) axis=0"}),
  };
}

}  // namespace flow::ops
