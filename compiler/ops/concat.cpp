// Tensors put together along an axis, and taken apart again.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/ir/builder.h"
#include "compiler/ops/axes.h"
#include "compiler/ops/families.h"
#include "ops/index_text.h"

namespace flow::defs {
namespace {

using Integers = std::vector<int64_t>;

/// Reports the first operand of another dtype than operand 0, or of a shape that `fits` refuses.
template <typename Fits>
bool alike(Inference& inference, Fits fits, std::string_view rule) {
  const ir::Value& first = inference.operand(0);
  for (size_t i = 1; i < inference.operands(); ++i) {
    const ir::Value& other = inference.operand(i);
    if (other.dtype != first.dtype) {
      inference
          .bad_operand(i, Diagnosis::kDTypeMismatch,
                       fmt::format("the operands are {} and {}; expected one dtype",
                                   name_of(first.dtype), name_of(other.dtype)))
          .with_hint(fmt::format("convert with `{{op: cast, dtype: {}}}`", name_of(first.dtype)));
      return false;
    }
    if (fits(other.shape)) continue;
    inference.bad_operand(i, Diagnosis::kShapeMismatch,
                          fmt::format("{} and {} {}", first.shape.str(), other.shape.str(), rule));
    return false;
  }
  return true;
}

int rows_of_all(const Inference& inference) {
  int rows = inference.operand(0).rows;
  for (size_t i = 1; i < inference.operands(); ++i)
    rows = common_rows(rows, inference.operand(i).rows);
  return rows;
}

void infer_concat(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  if (!axis) return;
  const Shape& first = inference.shape(0);
  const auto fits = [&](const Shape& other) {
    if (other.rank() != first.rank()) return false;
    for (int i = 0; i < first.rank(); ++i)
      if (i != *axis && other[i] != first[i]) return false;
    return true;
  };
  if (!alike(
          inference, fits,
          fmt::format("cannot be concatenated; expected equal sizes except along axis {}", *axis)))
    return;
  Shape out = first;
  // One that is too large to count stays so, and is told where all results are.
  for (size_t i = 1; i < inference.operands() && out.checked_elements(); ++i)
    out[*axis] += inference.shape(i)[*axis];
  const int rows = rows_of_all(inference);
  const bool joined = rows == *axis && inference.operands() > 1;
  inference.result(inference.operand(0).dtype, out, joined ? ir::kMixedRows : rows);
}

std::vector<ir::ValueId> concat_gradient(GradientContext& context) {
  const auto axis = static_cast<int>(context.node.attributes.get<int64_t>("axis"));
  std::vector<ir::ValueId> gradients(context.node.operands.size());
  int64_t begin = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Shape& x = context.value_of(context.operand(i)).shape;
    const int rank = x.rank();
    const int64_t end = begin + x[axis];
    if (context.wanted[i])
      gradients[i] = context.add("slice", i, {context.gradient()},
                                 {{"index", ops::index_of_range(rank, axis, begin, end)}});
    begin = end;
  }
  return gradients;
}

void infer_stack(Inference& inference) {
  const Shape& first = inference.shape(0);
  const int rank = first.rank() + 1;
  const auto given = inference.attribute<int64_t>("axis");
  const auto axis = axis_in(given, rank);
  if (!axis) {
    inference.bad_attribute(
        "axis", Diagnosis::kBadAttribute,
        fmt::format("the result has no axis {}; expected {} to {}", given, -rank, rank - 1));
    return;
  }
  inference.normalise("axis", int64_t{*axis});
  if (!alike(
          inference, [&](const Shape& other) { return other == first; },
          "cannot be stacked; expected equal shapes"))
    return;
  Integers extents = first.extents();
  extents.insert(extents.begin() + *axis, static_cast<int64_t>(inference.operands()));
  const int rows = rows_of_all(inference);
  inference.result(inference.operand(0).dtype, Shape(std::move(extents)),
                   rows >= *axis ? rows + 1 : rows);
}

std::vector<ir::ValueId> stack_gradient(GradientContext& context) {
  const auto axis = static_cast<int>(context.node.attributes.get<int64_t>("axis"));
  const int rank = context.value_of(context.result(0)).shape.rank();
  std::vector<ir::ValueId> gradients(context.node.operands.size());
  for (size_t i = 0; i < gradients.size(); ++i)
    if (context.wanted[i])
      gradients[i] =
          context.add("slice", i, {context.gradient()},
                      {{"index", ops::index_of_place(rank, axis, static_cast<int64_t>(i))}});
  return gradients;
}

constexpr int64_t kMostParts = 4096;

/// The attribute `parts` replaced by the extents of the parts along `axis`.
std::optional<Integers> normalise_parts(Inference& inference, int axis) {
  if (!inference.has("parts")) return inference.attribute<Integers>("sizes");
  const Shape& x = inference.shape(0);
  const auto bad = [&](const std::string& message) -> std::optional<Integers> {
    inference.bad_attribute("parts", Diagnosis::kShapeMismatch, message);
    return {};
  };
  Integers sizes;
  if (const auto* count = std::get_if<int64_t>(&inference.attribute("parts"))) {
    if (x[axis] % *count != 0)
      return bad(fmt::format("axis {} of {} has size {}; it does not split into {} equal parts",
                             axis, x.str(), x[axis], *count));
    if (*count <= kMostParts) sizes.assign(static_cast<size_t>(*count), x[axis] / *count);
  } else {
    sizes = inference.attribute<Integers>("parts");
    int64_t left = x[axis];
    for (const int64_t size : sizes) left = size > left ? -1 : left - size;
    if (left != 0)
      return bad(fmt::format("axis {} of {} has size {}; the parts {} do not add up to it", axis,
                             x.str(), x[axis], Shape(sizes).str()));
  }
  if (sizes.empty() || std::ssize(sizes) > kMostParts)
    return bad(fmt::format("too many parts; at most {} are supported", kMostParts));
  inference.replace("parts", "sizes", sizes);
  return sizes;
}

void infer_split(Inference& inference) {
  const auto axis = normalise_axis(inference, 0);
  const auto sizes = axis ? normalise_parts(inference, *axis) : std::nullopt;
  if (!sizes) return;
  const ir::Value& x = inference.operand(0);
  const bool mixed = x.rows == *axis && sizes->size() > 1;
  for (const int64_t size : *sizes) {
    Shape part = x.shape;
    part[*axis] = size;
    inference.result(x.dtype, std::move(part), mixed ? ir::kMixedRows : x.rows);
  }
}

/// One part alone had a gradient: zeros around it.
ir::ValueId padded(GradientContext& context, size_t part, int axis, const Integers& sizes) {
  const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(part);
  const auto rank = static_cast<size_t>(context.value_of(context.operand(0)).shape.rank());
  Integers paddings(2 * rank, 0);
  paddings[2 * static_cast<size_t>(axis)] = std::accumulate(sizes.begin(), at, int64_t{0});
  paddings[2 * static_cast<size_t>(axis) + 1] = std::accumulate(at + 1, sizes.end(), int64_t{0});
  return context.add("pad", 0, {context.gradient(part)}, {{"paddings", paddings}});
}

std::vector<ir::ValueId> split_gradient(GradientContext& context) {
  const auto axis = static_cast<int>(context.node.attributes.get<int64_t>("axis"));
  const Integers sizes = context.node.attributes.get<Integers>("sizes");
  std::vector<ir::ValueId> parts = context.result_gradients;
  const auto valid = [](ir::ValueId id) { return id.valid(); };
  if (std::ranges::count_if(parts, valid) == 1)
    return {padded(context, static_cast<size_t>(std::ranges::find_if(parts, valid) - parts.begin()),
                   axis, sizes)};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].valid()) continue;
    const Shape shape = context.value_of(context.result(i)).shape;
    parts[i] = context.add(
        "fill", 0, {},
        {{"value", 0.0}, {"shape", shape.extents()}, {"dtype", context.builder.graph().number}},
        fmt::format("zeros{}", i));
  }
  return {context.add("concat", 0, parts, {{"axis", int64_t{axis}}})};
}

}  // namespace

std::span<const OpDef> concat() {
  static const OpDef kOps[] = {
      {
          .name = "concat",
          .doc = "Concatenates tensors along an existing axis.",
          .formula = "y = x0, x1, ... joined along axis",
          .operands = {{"in", "equal shapes except along `axis`", Accepts::kAny, true}},
          .attributes = {{"axis", AttributeType::kInteger, "", "axis to concatenate along"}},
          .infer = infer_concat,
          .gradient = concat_gradient,
          .examples = {"concat(f32[2,3], f32[2,4]) axis=1", "concat(f32[2,3], f32[1,3]) axis=0",
                       "concat(f32[2,1,3], f32[2,2,3], f32[2,1,3]) axis=-2",
                       "concat(i32[3], i32[2]) axis=0", "concat(f32[2,3]) axis=0"},
      },
      {
          .name = "stack",
          .doc = "Stacks tensors of equal shape along a new axis.",
          .formula = "y[..., i, ...] = xi",
          .operands = {{"in", "equal shapes", Accepts::kAny, true}},
          .attributes = {{"axis", AttributeType::kInteger, "0",
                          "position of the new axis in the result"}},
          .infer = infer_stack,
          .gradient = stack_gradient,
          .examples = {"stack(f32[2,3], f32[2,3])", "stack(f32[2,3], f32[2,3]) axis=-1",
                       "stack(f32[4], f32[4], f32[4]) axis=1", "stack(f32[], f32[])",
                       "stack(bool[3], bool[3])"},
      },
      {
          .name = "split",
          .doc = "Splits a tensor into parts along an axis.",
          .formula = "out0, out1, ... = x",
          .operands = {{"in", "any shape except a scalar", Accepts::kAny}},
          .attributes = {{"axis", AttributeType::kInteger, "", "axis to split"},
                         {.name = "parts",
                          .type = AttributeType::kIntegerOrList,
                          .fallback = "",
                          .doc = "number of equal parts, or a list of part sizes",
                          .min = 1}},
          .results = {"out*"},
          .infer = infer_split,
          .gradient = split_gradient,
          .port_gradients = true,
          .examples = {"split(f32[4,3]) axis=0 parts=2", "split(f32[2,6]) axis=-1 parts=[1,3,2]",
                       "split(f32[3,5]) axis=1 parts=1", "split(i64[6]) axis=0 parts=3"},
      },
  };
  return kOps;
}

}  // namespace flow::defs
