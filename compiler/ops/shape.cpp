// Changing shapes without changing elements.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/grad/broadcast.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/families.h"

namespace flow::defs {
namespace {

using Integers = std::vector<int64_t>;

/// `wanted` with its -1 replaced by what is left; reports what does not hold the same elements.
std::optional<Shape> resolved(Inference& inference, Integers wanted) {
  const Shape& x = inference.shape(0);
  const auto misfit = [&](const std::string& message) -> std::optional<Shape> {
    inference.bad_attribute("shape", Diagnosis::kShapeMismatch, message);
    return {};
  };
  if (std::ranges::any_of(wanted, [](int64_t extent) { return extent == 0 || extent < -1; }))
    return misfit(fmt::format("invalid shape {}; expected positive sizes, at most one of them -1",
                              Shape(wanted).str()));
  if (std::ranges::count(wanted, -1) > 1)
    return misfit(
        fmt::format("{} has more than one -1; expected at most one", Shape(wanted).str()));
  Integers known = wanted;
  std::ranges::replace(known, -1, 1);
  const int64_t elements = x.elements();
  const auto asked = Shape(known).checked_elements();
  const auto open = std::ranges::find(wanted, -1);
  const bool fits = asked && (open == wanted.end() ? *asked == elements : elements % *asked == 0);
  if (!fits)
    return misfit(fmt::format("cannot reshape {} with {} elements to {}", x.str(), elements,
                              Shape(wanted).str()));
  if (open != wanted.end()) *open = elements / *asked;
  return Shape(std::move(wanted));
}

void infer_reshape(Inference& inference) {
  const auto shape = resolved(inference, inference.attribute<Integers>("shape"));
  if (!shape) return;
  const ir::Value& x = inference.operand(0);
  inference.normalise("shape", shape->extents());
  inference.result(x.dtype, *shape, reshaped_rows(x.shape, x.rows, *shape, inference.batch()));
}

std::vector<ir::ValueId> reshape_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  return {context.add("reshape", 0, {context.gradient()}, {{"shape", x.extents()}})};
}

ir::ValueId expand_flatten(LayerContext& context) {
  const Shape x = context.operand(0).shape;
  const int64_t given = context.attributes.get<int64_t>("start");
  const auto start = axis_in(given, x.rank());
  if (!start) {
    context.site().bad_attribute("start", Diagnosis::kBadAttribute,
                                 fmt::format("{} has no axis {} to flatten from", x.str(), given));
    return {};
  }
  Integers shape(x.begin(), x.begin() + *start);
  shape.push_back(x.elements(*start, x.rank()));
  return context.add("reshape", "", {context.operands[0]}, {{"shape", std::move(shape)}});
}

void infer_broadcast_to(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  const Shape shape(inference.attribute<Integers>("shape"));
  if (broadcast(x.shape, shape) == shape)
    inference.result(x.dtype, shape, broadcast_rows(shape, x.shape, x.rows, shape, ir::kNoRows));
  else
    inference.bad_attribute("shape", Diagnosis::kShapeMismatch,
                            fmt::format("{} does not broadcast to {}", x.shape.str(), shape.str()));
}

std::vector<ir::ValueId> broadcast_to_gradient(GradientContext& context) {
  return {sum_to_operand(context, 0, context.gradient())};
}

}  // namespace

std::span<const OpDef> shape() {
  static const OpDef kOps[] = {
      {
          .name = "flatten",
          .doc = "Joins an axis and all later axes into one.",
          .formula = "y = x, of shape [d0, ..., d(start) d(start+1) ...]",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {{"start", AttributeType::kInteger, "1", "first axis to join"}},
          .expand = expand_flatten,
      },
      {
          .name = "reshape",
          .doc = "Changes the shape and keeps the order of the elements.",
          .formula = "y = x, of shape `shape`",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {{"shape", AttributeType::kIntegers, "",
                          "new shape; one size can be -1 and is inferred"}},
          .infer = infer_reshape,
          .gradient = reshape_gradient,
          .examples = {"reshape(f32[3,4]) shape=[2,6]", "reshape(f32[2,3,4]) shape=[-1,4]",
                       "reshape(i32[6]) shape=[2,3]", "reshape(f32[1]) shape=[]"},
      },
      {
          .name = "broadcast_to",
          .doc = "Broadcasts along axes of size 1 and new leading axes.",
          .formula = "y[..., i, ...] = x[..., 0, ...]",
          .operands = {{"x", "a shape that broadcasts to `shape`"}},
          .attributes = {{"shape", AttributeType::kIntegers, "", "shape of the result"}},
          .infer = infer_broadcast_to,
          .gradient = broadcast_to_gradient,
          .internal = true,
          .examples = {"broadcast_to(f32[3,1]) shape=[3,4]", "broadcast_to(f32[]) shape=[2,3]",
                       "broadcast_to(f32[4]) shape=[2,3,4]"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
