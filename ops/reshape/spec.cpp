// The records of ops that give the same elements another shape or name.
#include <algorithm>

#include "ops/core/families.h"

namespace flow::ops {
namespace {

using Integers = std::vector<int64_t>;

void report_bad_shape(Call& call, std::string message) {
  call.bad_attribute("shape", Reason::kShapeMismatch, std::move(message));
}

/// Reports that the elements of operand 0 do not fill the shape `wanted`, which may contain -1.
void report_unfilled_shape(Call& call, const Shape& wanted) {
  const Shape& x = call.shape(0);
  report_bad_shape(call, fmt::format("cannot reshape {} with {} elements to {}", x.str(),
                                     x.elements(), wanted.str()));
}

/// Replaces -1 by the extent that remains for it.
void normalize_reshape(Call& call, Attributes& attributes) {
  const Shape given(call.integers("shape"));
  if (std::ranges::any_of(given, [](int64_t extent) { return extent == 0 || extent < -1; }))
    return report_bad_shape(
        call, fmt::format("invalid shape {}; expected positive sizes, at most one of them -1",
                          given.str()));
  if (std::ranges::count(given, -1) > 1)
    return report_bad_shape(
        call, fmt::format("{} has more than one -1; expected at most one", given.str()));
  Integers extents = given.extents();
  const auto open = std::ranges::find(extents, -1);
  if (open == extents.end()) return;
  *open = 1;
  const int64_t elements = call.shape(0).elements();
  const auto known = Shape(extents).checked_elements();
  if (!known || elements % *known != 0) return report_unfilled_shape(call, given);
  *open = elements / *known;
  attributes.set("shape", std::move(extents));
}

void infer_reshape(Call& call) {
  const Shape shape(call.integers("shape"));
  const Operand& x = call.operand(0);
  if (shape.checked_elements() == x.shape.elements())
    call.result(x.dtype, shape, reshaped_batch(x.shape, x.batch_axis, shape, call.job().batch));
  else
    report_unfilled_shape(call, shape);
}

void infer_shard_rows(Call& call) {
  if (const auto axis = axis_of(call))
    call.result(call.dtype(0), call.shape(0), static_cast<int>(*axis));
}

}  // namespace

std::vector<OpSpec> reshape() {
  return {
      {.name = "flatten",
       .doc = "Joins an axis and all later axes into one.",
       .formula = "y = x, of shape [d0, ..., d(start) d(start+1) ...]",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {{"start", AttributeType::kInteger, "1", "first axis to join"}}},
      {.name = "reshape",
       .doc = "Changes the shape and keeps the order of the elements.",
       .formula = "y = x, of shape `shape`",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {{"shape", AttributeType::kIntegers, "",
                       "new shape; one size can be -1 and is inferred"}},
       .plan_attributes = {extents_of_result("shape")},
       .normalize = normalize_reshape,
       .infer = infer_reshape,
       .in_place = {0},
       .view = true,
       .linear = {0},
       .moves_elements = true,
       .rounds_operands = rounds_always,
       .flops = {0},
       .numpy = "x.reshape(shape)",
       .examples = {"reshape(f32[3,4]) shape=[2,6]", "reshape(f32[2,3,4]) shape=[-1,4]",
                    "reshape(i32[6]) shape=[2,3]", "reshape(f32[1]) shape=[]"}},
      {.name = "squeeze",
       .doc = "Removes axes of size 1.",
       .formula = "y = x without the axes",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {{"axis", AttributeType::kIntegers, "all",
                       "axis or list of axes to remove; `all` removes every axis of size 1"}}},
      {.name = "expand_dims",
       .doc = "Inserts axes of size 1.",
       .formula = "y = x with the new axes",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .attributes = {{"axis", AttributeType::kIntegers, "",
                       "axis or list of axes to insert, counted in the result"}}},
      {.name = "identity",
       .doc = "Passes the value through under another name.",
       .formula = "y = x",
       .operands = {{"in", "any shape", Accepts::kAny}}},
      {.name = "stop_gradient",
       .doc = "Passes the value through and blocks its gradient.",
       .formula = "y = x, dx = 0",
       .operands = {{"in", "any shape", Accepts::kAny}},
       .infer = infer_like_operand,
       .dropped = true,
       .linear = {0},
       .moves_elements = true,
       .numpy = "x",
       .examples = {"stop_gradient(f32[3,4])", "stop_gradient(i32[])"}},
      {.name = "shard_rows",
       .doc = "Each shard reads its own rows of a value that all shards share.",
       .formula = "y = x",
       .operands = {{"x", "any shape that has the axis", Accepts::kAny}},
       .attributes = {axis_attribute("", "batch axis of the result")},
       .normalize = normalize_axis,
       .infer = infer_shard_rows,
       .dropped = true,
       .internal = true},
  };
}

}  // namespace flow::ops
