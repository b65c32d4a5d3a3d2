// Tensors made larger: what stands around them, and copies of them.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/families.h"
#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::defs {
namespace {

using Integers = std::vector<int64_t>;

struct Pads {
  int64_t before, after;
};

Pads pads_of(const Integers& paddings, int axis) {
  const auto at = 2 * static_cast<size_t>(axis);
  return {paddings[at], paddings[at + 1]};
}

/// Reflections do not repeat the edge, so that an axis has one less than its extent on each side.
bool check_reflection(Inference& inference, int axis, Pads pads) {
  const Shape& x = inference.shape(0);
  const int64_t most = x[axis] - 1, asked = std::max(pads.before, pads.after);
  if (asked <= most) return true;
  inference.bad_attribute(
      "paddings", Diagnosis::kShapeMismatch,
      fmt::format("cannot reflect {} elements onto axis {} of {}; at most {} are available", asked,
                  axis, x.str(), most));
  return false;
}

bool check_value(Inference& inference) {
  const DType dtype = inference.operand(0).dtype;
  const double value = inference.attribute<double>("value");
  if (is_representable(value, dtype)) return true;
  inference.bad_attribute("value", Diagnosis::kBadAttribute,
                          fmt::format("cannot store {} as {}", shortest(value), name_of(dtype)));
  return false;
}

void infer_pad(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  const Integers& paddings = inference.attribute<Integers>("paddings");
  const bool reflect = inference.attribute<std::string>("mode") == "reflect";
  if (paddings.size() != 2 * static_cast<size_t>(x.shape.rank())) {
    inference
        .bad_attribute(
            "paddings", Diagnosis::kRankMismatch,
            fmt::format("{} for {} of rank {}; expected one per axis",
                        counted(paddings.size() / 2, "pair"), x.shape.str(), x.shape.rank()))
        .with_hint("write `[0, 0]` for an axis without padding");
    return;
  }
  if (!check_value(inference)) return;
  Shape out = x.shape;
  int rows = x.rows;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const Pads pads = pads_of(paddings, axis);
    if (reflect && !check_reflection(inference, axis, pads)) return;
    out[axis] += pads.before + pads.after;
    if (axis == x.rows && out[axis] != x.shape[axis]) rows = ir::kMixedRows;
  }
  inference.result(x.dtype, std::move(out), rows);
}

std::vector<ir::ValueId> pad_gradient(GradientContext& context) {
  const ir::Attributes& attributes = context.node.attributes;
  const Integers paddings = attributes.get<Integers>("paddings");
  if (attributes.get<std::string>("mode") != "constant")
    return {context.add("pad_grad", 0, {context.gradient()},
                        {{"paddings", paddings}, {"mode", *attributes.find("mode")}})};
  const Shape x = context.value_of(context.operand(0)).shape;
  std::vector<std::string> items;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t before = pads_of(paddings, axis).before;
    items.push_back(fmt::format("{}:{}", before, before + x[axis]));
  }
  return {
      context.add("slice", 0, {context.gradient()}, {{"index", "[" + join(items, ", ") + "]"}})};
}

void infer_pad_grad(Inference& inference) {
  const ir::Value& dy = inference.operand(0);
  const Integers& paddings = inference.attribute<Integers>("paddings");
  Shape dx = dy.shape;
  for (int axis = 0; axis < dx.rank(); ++axis) {
    const Pads pads = pads_of(paddings, axis);
    dx[axis] -= pads.before + pads.after;
  }
  const bool mixed = dy.rows >= 0 && dx[dy.rows] != dy.shape[dy.rows];
  inference.result(dy.dtype, std::move(dx), mixed ? ir::kMixedRows : dy.rows);
}

void infer_tile(Inference& inference) {
  const ir::Value& x = inference.operand(0);
  const Integers& multiples = inference.attribute<Integers>("multiples");
  if (multiples.size() != static_cast<size_t>(x.shape.rank())) {
    inference
        .bad_attribute("multiples", Diagnosis::kRankMismatch,
                       fmt::format("{} for {}; expected one per axis",
                                   counted(multiples.size(), "multiple"), x.shape.str()))
        .with_hint("write 1 for an axis without copies");
    return;
  }
  Shape out = x.shape;
  int rows = x.rows;
  for (int axis = 0; axis < out.rank(); ++axis) {
    const int64_t copies = multiples[static_cast<size_t>(axis)];
    const auto extent = Shape{out[axis], copies}.checked_elements();
    if (!extent) {
      inference.bad_attribute("multiples", Diagnosis::kTensorTooLarge,
                              fmt::format("{} copies of axis {} of {} are too many to count",
                                          copies, axis, x.shape.str()));
      return;
    }
    out[axis] = *extent;
    if (axis == x.rows && copies != 1) rows = ir::kMixedRows;
  }
  inference.result(x.dtype, std::move(out), rows);
}

/// The sum over the copies, along one axis after another.
std::vector<ir::ValueId> tile_gradient(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Integers multiples = context.node.attributes.get<Integers>("multiples");
  Shape left = context.value_of(context.gradient()).shape;
  ir::ValueId sum = context.gradient();
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int64_t copies = multiples[static_cast<size_t>(axis)];
    if (copies == 1) continue;
    left[axis] = x[axis];
    const Integers apart = {left.elements(0, axis), copies, left.elements(axis, left.rank())};
    sum = context.add("reshape", 0, {sum}, {{"shape", apart}}, fmt::format("copies{}", axis));
    sum = context.add("reduce_sum", 0, {sum}, {{"axis", Integers{1}}, {"keepdims", false}},
                      fmt::format("sum{}", axis));
  }
  return {context.add("reshape", 0, {sum}, {{"shape", x.extents()}})};
}

AttributeDef paddings() {
  return {.name = "paddings",
          .type = AttributeType::kPairs,
          .fallback = "",
          .doc = "[before, after] for each axis, in elements",
          .min = 0,
          .max = INT32_MAX};
}

}  // namespace

std::span<const OpDef> pad() {
  static const OpDef kOps[] = {
      {
          .name = "pad",
          .doc = "Pads each axis with a constant, a reflection or the edge values.",
          .formula = "y = x, with a constant, its reflection or its edge around it",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {paddings(),
                         {.name = "mode",
                          .type = AttributeType::kText,
                          .fallback = "constant",
                          .doc = "source of the added elements; reflect does not repeat the edge",
                          .choices = {"constant", "reflect", "edge"}},
                         {"value", AttributeType::kNumber, "0", "constant to pad with"}},
          .infer = infer_pad,
          .gradient = pad_gradient,
          .examples = {"pad(f32[3,4]) paddings=[[1,0],[2,3]]",
                       "pad(f32[3,4]) paddings=[[0,0],[1,2]] value=-1.5",
                       "pad(f32[3,4]) paddings=[[2,1],[3,3]] mode=reflect",
                       "pad(f32[3,1]) paddings=[[2,1],[3,4]] mode=edge",
                       "pad(f32[2,1,4]) paddings=[[0,0],[0,0],[3,0]] mode=reflect",
                       "pad(i32[3]) paddings=[[1,1]] value=7", "pad(f32[]) paddings=[]"},
      },
      {
          .name = "pad_grad",
          .doc = "Gradient of pad in mode reflect or edge: adds up the gradients of all copies.",
          .formula = "dx[j] = sum of dy[i] with y[i] = x[j]",
          .operands = {{"dy", "shape of the padded tensor"}},
          .attributes = {paddings(),
                         {.name = "mode",
                          .type = AttributeType::kText,
                          .fallback = "",
                          .doc = "mode of the forward op",
                          .choices = {"reflect", "edge"}}},
          .infer = infer_pad_grad,
          .internal = true,
          .examples = {"pad_grad(f32[6,10]) paddings=[[2,1],[3,3]] mode=reflect",
                       "pad_grad(f32[6,8]) paddings=[[2,1],[3,4]] mode=edge"},
      },
      {
          .name = "tile",
          .doc = "Repeats a tensor along each axis.",
          .formula = "y[..., i, ...] = x[..., i mod d, ...]",
          .operands = {{"in", "any shape", Accepts::kAny}},
          .attributes = {{.name = "multiples",
                          .type = AttributeType::kIntegers,
                          .fallback = "",
                          .doc = "number of copies along each axis",
                          .min = 1}},
          .infer = infer_tile,
          .gradient = tile_gradient,
          .examples = {"tile(f32[2,3]) multiples=[2,1]", "tile(f32[2,3]) multiples=[3,2]",
                       "tile(f32[2,1,3]) multiples=[2,4,2]", "tile(u8[3]) multiples=[2]",
                       "tile(f32[2]) multiples=[1]", "tile(f32[]) multiples=[]"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
