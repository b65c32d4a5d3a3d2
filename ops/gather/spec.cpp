// Specifications of the ops that pick, add or replace slices by index, and of one-hot encoding.
#include "ops/core/families.h"

namespace flow::ops {
namespace {

/// Returns the batch axis of the indices after they replace `axis`.
int batch_of_indices(const Operand& indices, int axis) {
  return indices.batch_axis >= 0 ? axis + indices.batch_axis : indices.batch_axis;
}

void infer_gather(Call& call) {
  const auto axis = axis_of(call);
  if (!axis) return;
  const Operand &params = call.operand(0), &indices = call.operand(1);
  int batch_axis = batch_beside(params.batch_axis, *axis);
  if (batch_axis > *axis) batch_axis += indices.shape.rank() - 1;
  call.result(params.dtype, replaced_axes(params.shape, *axis, 1, indices.shape),
              common_batch(batch_axis, batch_of_indices(indices, *axis)));
}

/// Returns the batch axis of a sum along `axis`. The operand with `batch_axis` has `rank` axes of
/// indices in place of `axis`.
int batch_of_scattered(int batch_axis, int axis, int rank) {
  if (batch_axis < axis) return batch_axis;
  return batch_axis < axis + rank ? kBatchReduced : batch_axis - (rank - 1);
}

void infer_gather_grad(Call& call) {
  const Operand &indices = call.operand(0), &dy = call.operand(1);
  const auto axis = static_cast<int>(call.attribute<int64_t>("axis"));
  const int rank = indices.shape.rank();
  if (axis + rank > dy.shape.rank() || dy.shape.from(axis).first(rank) != indices.shape) {
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("{} does not have the axes of the indices {} from axis {} on",
                                 dy.shape.str(), indices.shape.str(), axis));
    return;
  }
  const int picked = common_batch(dy.batch_axis, batch_of_indices(indices, axis));
  const bool summed = axis <= picked && picked < axis + rank;
  call.result(dy.dtype,
              replaced_axes(dy.shape, axis, rank, Shape{call.attribute<int64_t>("extent")}),
              batch_of_scattered(picked, axis, rank), summed ? Combine::kSum : Combine::kNone);
}

void infer_sparse_gather_grad(Call& call) {
  const Operand &indices = call.operand(0), &dy = call.operand(1);
  if (indices.shape.rank() != 1 || dy.shape.rank() == 0 || dy.shape.first(1) != indices.shape) {
    call.bad_operand(1, Reason::kShapeMismatch,
                     fmt::format("{} is not a row for each of the indices {}", dy.shape.str(),
                                 indices.shape.str()));
    return;
  }
  const int order = batch_beside(indices.batch_axis, 0);
  call.result(dy.dtype, dy.shape, common_batch(batch_beside(dy.batch_axis, 0), order));
  call.result(DType::kInt64, indices.shape, order);
}

void infer_scatter(Call& call) {
  const auto axis = axis_of(call);
  if (!axis || !call.same_dtype(0, 2)) return;
  const Operand &in = call.operand(0), &indices = call.operand(1), &updates = call.operand(2);
  const Shape expected = replaced_axes(in.shape, *axis, 1, indices.shape);
  if (updates.shape != expected) {
    call.bad_operand(2, Reason::kShapeMismatch,
                     fmt::format("the updates are {} for indices {}; expected {}",
                                 updates.shape.str(), indices.shape.str(), expected.str()));
    return;
  }
  const int added = batch_of_scattered(updates.batch_axis, *axis, indices.shape.rank());
  const int mixed = indices.batch_axis == kNoBatch ? kNoBatch : kBatchReduced;
  call.result(in.dtype, in.shape,
              common_batch(batch_beside(in.batch_axis, *axis), common_batch(added, mixed)));
}

void infer_one_hot(Call& call) {
  const Operand& indices = call.operand(0);
  const auto dtype = call.attribute<DType>("dtype");
  if (!can_store(call, "on_value", dtype) || !can_store(call, "off_value", dtype)) return;
  const Shape depth{call.attribute<int64_t>("depth")};
  call.result(dtype, replaced_axes(indices.shape, indices.shape.rank(), 0, depth),
              indices.batch_axis);
}

int64_t depth_of(std::span<const Shape>, const Attributes& attributes) {
  return attributes.get<int64_t>("depth");
}

}  // namespace

std::vector<OpSpec> gather() {
  return {
      {.name = "embedding",
       .doc = "Looks up one vector per integer in a weight (vocab_size, units).",
       .formula = "y[...] = W[x[...]]",
       .operands = {{"in", "integers of any shape", Accepts::kInteger}},
       .attributes = embedding_attributes(),
       .takes_variables = true},
      {.name = "gather",
       .doc = "Gathers slices along an axis by index.",
       .formula = "y[..., i, ...] = params[..., indices[i], ...]",
       .operands = {{"params", "any shape except a scalar", Accepts::kAny},
                    integers("indices", "integers of any shape, in [0, size of the axis)",
                             limit_of_axis)},
       .attributes = {axis_attribute("0", "axis to gather along")},
       .normalize = normalize_axis,
       .infer = infer_gather,
       .linear = {0},
       .moves_elements = true,
       .layer = "embedding",
       .flops = {0},
       .numpy = "np.take(params, indices, axis)",
       .examples = {"gather(f32[10,3], i32[4])", "gather(f32[10,3], i64[2,3])",
                    "gather(f32[2,10,3], i32[5]) axis=1", "gather(f32[2,10], u8[2,2]) axis=-1",
                    "gather(f32[10], i32[])", "gather(i64[10,2], i8[3])"}},
      {.name = "gather_grad",
       .doc = "Gradient of gather: adds up the gradients of repeated indices.",
       .formula = "dx[..., j, ...] = sum of dy[..., i, ...] with indices[i] = j",
       .operands = {integers("indices", "indices of the forward op", limit_of_extent),
                    {"dy", "same shape as the gathered result"}},
       .attributes = {axis_attribute("", "axis of the slices"),
                      extent_attribute("size of the axis")},
       .infer = infer_gather_grad,
       .linear = {1},
       .flops = {1, Flops::Each::kFirst},
       .internal = true,
       .examples = {"gather_grad(i32[6], f32[6,3]) axis=0 extent=10",
                    "gather_grad(i64[2,3], f32[4,2,3,2]) axis=1 extent=10"}},
      {.name = "sparse_gather_grad",
       .doc = "Gradient of gather along the first axis, as the rows that it picked.",
       .formula = "indices: the indices without repetitions, in ascending order, then -1; "
                  "rows[r, ...] = sum of dy[i, ...] with x[i] = indices[r], then 0",
       .operands = {integers("in", "a vector of indices; those out of range are left out",
                             limit_of_extent),
                    {"dy", "a row for each index"}},
       .attributes = {extent_attribute("size of the first axis")},
       .results = {{"rows"}, {"indices"}},
       .infer = infer_sparse_gather_grad,
       .flops = {1, Flops::Each::kSecond},
       .internal = true,
       .examples = {"sparse_gather_grad(i32[6], f32[6,3]) extent=10",
                    "sparse_gather_grad(i64[40], f32[40,2,3]) extent=10",
                    "sparse_gather_grad(u8[7], f32[7]) extent=10"}},
      {.name = "scatter_add",
       .doc = "Adds slices along an axis by index, the reverse of gather; repeated indices add "
              "up in their order.",
       .formula = "y = x, then y[..., indices[i], ...] += updates[..., i, ...] for each i",
       .operands = {{"in", "any shape except a scalar"},
                    integers("indices", "integers of any shape, in [0, size of the axis)",
                             limit_of_axis),
                    {"updates", "shape of x with the shape of the indices in place of the axis"}},
       .attributes = {axis_attribute("0", "axis of the slices")},
       .normalize = normalize_axis,
       .infer = infer_scatter,
       .examples = {"scatter_add(f32[10,3], i32[6], f32[6,3])",
                    "scatter_add(f32[10,3], i64[2,3], f32[2,3,3])",
                    "scatter_add(f32[2,10,3], i32[5], f32[2,5,3]) axis=1",
                    "scatter_add(f32[2,10], u8[40], f32[2,40]) axis=-1",
                    "scatter_add(f32[10,2], i32[], f32[2])"}},
      {.name = "scatter_update",
       .doc = "Replaces slices along an axis by index; of equal indices, the last counts.",
       .formula = "y = x, then y[..., indices[i], ...] = updates[..., i, ...] for each i",
       .operands = {{"in", "any shape except a scalar", Accepts::kAny},
                    integers("indices", "integers of any shape, in [0, size of the axis)",
                             limit_of_axis),
                    {"updates",
                     "shape of x with the shape of the indices in place of the axis, dtype of x",
                     Accepts::kAny}},
       .attributes = {axis_attribute("0", "axis of the slices")},
       .normalize = normalize_axis,
       .infer = infer_scatter,
       .in_place = {0},
       .flops = {0},
       .examples = {"scatter_update(f32[10,3], i32[6], f32[6,3])",
                    "scatter_update(f32[10,3], i64[2,3], f32[2,3,3])",
                    "scatter_update(f32[2,10,3], i32[5], f32[2,5,3]) axis=1",
                    "scatter_update(f32[2,10], u8[40], f32[2,40]) axis=-1",
                    "scatter_update(u8[10,2], i32[], u8[2])"}},
      {.name = "one_hot",
       .doc = "One-hot encodes integers along a new last axis.",
       .formula = "y[..., i] = on_value where x[...] = i, else off_value",
       .operands = {integers("in", "integers of any shape, in [0, depth)", depth_of)},
       .attributes = {count_attribute("depth", "size of the new last axis"),
                      value_attribute("on_value", "1", "value at the index"),
                      value_attribute("off_value", "0", "value elsewhere"),
                      {"dtype", AttributeType::kDType, "float32", "dtype of the result"}},
       .infer = infer_one_hot,
       .flops = {0},
       .numpy = "np.where(x[..., None] == np.arange(depth), on_value, off_value).astype(dtype)",
       .examples = {"one_hot(i32[4]) depth=10", "one_hot(i64[2,3]) depth=10 on_value=0.9",
                    "one_hot(u8[3]) depth=10 dtype=bool",
                    "one_hot(i32[]) depth=10 on_value=5 off_value=-1 dtype=int64"}},
  };
}

}  // namespace flow::ops
