// Other names and shapes for the same elements.
#include "ops/core/axes.h"
#include "ops/core/families.h"

namespace flow::ops {
namespace {

void infer_shard_rows(Call& call) {
  if (const auto axis = axis_of(call))
    call.result(call.dtype(0), call.shape(0), static_cast<int>(*axis));
}

}  // namespace

std::span<const OpSpec> view() {
  static const OpSpec kOps[] = {
      {
          .name = "squeeze",
          .doc = "Removes axes of size 1.",
          .formula = "y = x without the axes",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {{"axis", AttributeType::kIntegers, "all",
                          "axis or list of axes to remove; `all` removes every axis of size 1"}},
      },
      {
          .name = "expand_dims",
          .doc = "Inserts axes of size 1.",
          .formula = "y = x with the new axes",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {{"axis", AttributeType::kIntegers, "",
                          "axis or list of axes to insert, counted in the result"}},
      },
      {
          .name = "identity",
          .doc = "Passes the value through under another name.",
          .formula = "y = x",
          .operands = {{"in", "any shape", Accepts::kAny}},
      },
      {
          .name = "stop_gradient",
          .doc = "Passes the value through and blocks its gradient.",
          .formula = "y = x, dx = 0",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .infer = infer_like_operand,
          .dropped = true,
          .linear = {0},
          .moves_elements = true,
          .numpy = "x",
          .examples = {"stop_gradient(f32[3,4])", "stop_gradient(i32[])"},
      },
      {
          .name = "shard_rows",
          .doc = "Each shard reads its own rows of a value that all shards share.",
          .formula = "y = x",
          .operands = {{"x", "any shape that has the axis", Accepts::kAny}},
          .attributes = {{"axis", AttributeType::kInteger, "", "batch axis of the result"}},
          .plan_attributes = {{"axis", Kind::kAxis}},
          .normalise = normalise_axis,
          .infer = infer_shard_rows,
          .dropped = true,
          .internal = true,
      },
  };
  return kOps;
}

}  // namespace flow::ops
