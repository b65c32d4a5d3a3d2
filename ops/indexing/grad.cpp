// Expansions of gather_nd and scatter_nd into gather, scatter_add and scatter_update along one
// axis, which joins the indexed axes; the expansion of bincount; and the gradients of
// take_along_axis, put_along_axis and add_along_axis.
#include "compiler/grad/shared_parts.h"

namespace flow::grad {
namespace {

using ir::ValueId;
using Integers = std::vector<int64_t>;

/// The axes of x: `batch` leading axes that are not indexed, then `indexed` axes, then the axes of
/// slices.
struct IndexedAxes {
  int batch = 0, indexed = 0;
};

/// Returns the axes of operand 0 that the indices address. Reports indices that do not fit, and
/// returns nothing in that case.
std::optional<IndexedAxes> indexed_axes(const LayerContext& context, int batch) {
  const Shape x = context.operand(0).shape, indices = context.operand(1).shape;
  if (indices.rank() <= batch || x.rank() <= batch || indices.first(batch) != x.first(batch)) {
    context.site().bad_operand(
        1, Diagnosis::kShapeMismatch,
        batch == 0
            ? fmt::format("{} has no last axis with an index for each axis", indices.str())
            : fmt::format("{} and {} do not share {} leading axes", x.str(), indices.str(), batch));
    return {};
  }
  const int64_t indexed = indices[indices.rank() - 1];
  if (indexed <= x.rank() - batch) return IndexedAxes{batch, static_cast<int>(indexed)};
  context.site().bad_operand(1, Diagnosis::kShapeMismatch,
                             fmt::format("the indices {} index {} axes; {} has {}", indices.str(),
                                         indexed, x.str(), x.rank() - batch));
  return {};
}

ValueId added(const LayerContext& context, std::string_view part, ValueId a, ValueId b) {
  return a.valid() ? context.add("add", part, {a, b}) : b;
}

/// Returns the offsets 0, stride, 2 stride, ..., which the indices of one axis add to the place
/// along the joined axis.
ValueId offsets(const LayerContext& context, const std::string& part, int64_t extent,
                int64_t stride) {
  return context.add("evenly_spaced", part, {},
                     {{"first", 0.0},
                      {"last", static_cast<double>((extent - 1) * stride)},
                      {"count", extent},
                      {"dtype", DType::kInt64}});
}

/// Converts indices (..., K) to places along the axis that joins the batch axes and the K indexed
/// axes. The offsets are gathered from tables, so that gather checks the index of each axis.
ValueId joined_indices(const LayerContext& context, const IndexedAxes& axes) {
  const Shape x = context.operand(0).shape, indices = context.operand(1).shape;
  const Shape picked = indices.first(indices.rank() - 1);
  const int end = axes.batch + axes.indexed;
  ValueId sum;
  for (int axis = 0; axis < end; ++axis) {
    const int64_t stride = x.elements(axis + 1, end);
    ValueId part = offsets(context, fmt::format("offsets{}", axis), x[axis], stride);
    if (axis < axes.batch) {
      Integers along(static_cast<size_t>(picked.rank()), 1);
      along[static_cast<size_t>(axis)] = x[axis];
      part = context.reshape(fmt::format("batch{}", axis), part, along);
    } else {
      const int k = axis - axes.batch;
      const ValueId index = context.add("slice", fmt::format("indices{}", k), {context.operands[1]},
                                        {{"index", fmt::format("[..., {}]", k)}});
      part = context.add("gather", fmt::format("places{}", k), {part, index});
    }
    sum = added(context, fmt::format("sum{}", axis), sum, part);
  }
  return sum;
}

/// Returns x with the batch axes and the indexed axes joined into one.
ValueId joined_axes(const LayerContext& context, const IndexedAxes& axes) {
  const Shape x = context.operand(0).shape;
  const int end = axes.batch + axes.indexed;
  Integers shape = x.from(end).extents();
  shape.insert(shape.begin(), x.elements(0, end));
  return context.reshape("joined", context.operands[0], std::move(shape));
}

ValueId expand_gather_nd(LayerContext& context) {
  const auto axes =
      indexed_axes(context, static_cast<int>(context.attributes.get<int64_t>("batch_dims")));
  if (!axes) return {};
  return context.add("gather", "", {joined_axes(context, *axes), joined_indices(context, *axes)});
}

/// Reports updates whose shape or dtype differs from that of the elements they replace. Returns
/// true if the updates fit.
bool updates_fit(const LayerContext& context, const IndexedAxes& axes) {
  const Shape x = context.operand(0).shape, indices = context.operand(1).shape;
  const Shape expected = ops::replaced_axes(indices, indices.rank() - 1, 1, x.from(axes.indexed));
  ops::Call call = context.call();
  if (call.same_dtype(0, 2)) call.have_shape(2, 3, expected);
  return !context.report(call);
}

ValueId expand_scatter_nd(LayerContext& context) {
  const auto axes = indexed_axes(context, 0);
  if (!axes || !updates_fit(context, *axes)) return {};
  const bool adds = context.attributes.get<std::string>("reduction") == "add";
  if (adds && context.operand(0).dtype != context.compute_dtype()) {
    context.site().bad_operand(
        0, Diagnosis::kDTypeMismatch,
        fmt::format("`reduction: add` is of {}; found {}", name_of(context.compute_dtype()),
                    name_of(context.operand(0).dtype)));
    return {};
  }
  const Shape x = context.operand(0).shape;
  const ValueId indices = joined_indices(context, *axes), whole = joined_axes(context, *axes);
  const ValueId y = context.add(adds ? "scatter_add" : "scatter_update", "scatter",
                                {whole, indices, context.operands[2]});
  return context.reshape("", y, x.extents());
}

std::vector<ValueId> take_along_axis_gradient(GradientContext& context) {
  const ValueId zeros = zeros_like(context, 0, context.value_of(context.operand(0)), "zeros");
  return {context.add("add_along_axis", 0, {zeros, context.operand(1), context.gradient()},
                      context.attributes({"axis"})),
          ValueId()};
}

std::vector<ValueId> add_along_axis_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(3);
  if (context.wanted[0]) gradients[0] = context.gradient();
  if (context.wanted[2])
    gradients[2] = context.add("take_along_axis", 2, {context.gradient(), context.operand(1)},
                               context.attributes({"axis"}));
  return gradients;
}

/// Returns bools that are true for the updates after which no other update has the same index. Each
/// update writes its place along the axis and reads it back; it is the last one if no other update
/// has overwritten the place.
ValueId last_updates(GradientContext& context) {
  const Shape x = context.value_of(context.operand(0)).shape;
  const Shape picked = context.value_of(context.operand(1)).shape;
  const ValueId indices = context.operand(1);
  const ValueId ones = context.fill(2, 1, picked, DType::kInt64, "ones");
  const ValueId none = context.fill(2, 0, x, DType::kInt64, "none");
  const ValueId places = context.add(
      "cumsum", 2, {ones},
      {{"axis", *context.node.attributes.find("axis")}, {"exclusive", false}, {"reverse", false}},
      "places");
  const ValueId written = context.add("put_along_axis", 2, {none, indices, places},
                                      context.attributes({"axis"}), "written");
  const ValueId found =
      context.add("take_along_axis", 2, {written, indices}, context.attributes({"axis"}), "found");
  return context.add("equal", 2, {found, places}, {}, "last");
}

std::vector<ValueId> put_along_axis_gradient(GradientContext& context) {
  std::vector<ValueId> gradients(3);
  const ir::Value updates = context.value_of(context.operand(2));
  const ValueId dy = context.gradient(), indices = context.operand(1);
  if (context.wanted[0]) {
    const ValueId zeros = zeros_like(context, 0, updates, "zeros");
    gradients[0] =
        context.add("put_along_axis", 0, {dy, indices, zeros}, context.attributes({"axis"}));
  }
  if (!context.wanted[2]) return gradients;
  const ValueId last = last_updates(context);
  const ValueId taken =
      context.add("take_along_axis", 2, {dy, indices}, context.attributes({"axis"}), "taken");
  const ValueId zero = context.fill(2, 0, Shape{}, updates.dtype, "zero");
  gradients[2] = context.add("where", 2, {last, taken, zero});
  return gradients;
}

/// Expands bincount by adding up ones at the integers.
ValueId expand_bincount(LayerContext& context) {
  const int64_t elements = context.operand(0).shape.elements();
  const auto of_counts = [&](std::string_view part, double value, int64_t count) {
    return context.fill(part, value, {count}, DType::kInt64);
  };
  const ValueId flat = context.reshape("flat", context.operands[0], std::vector<int64_t>{elements});
  const ValueId zeros = of_counts("zeros", 0, context.attributes.get<int64_t>("size"));
  const ValueId ones = of_counts("ones", 1, elements);
  return context.add("add_along_axis", "", {zeros, flat, ones}, {{"axis", int64_t{0}}});
}

}  // namespace

std::vector<Rules> indexing() {
  return {
      {"gather_nd", nullptr, expand_gather_nd},      {"scatter_nd", nullptr, expand_scatter_nd},
      {"take_along_axis", take_along_axis_gradient}, {"put_along_axis", put_along_axis_gradient},
      {"add_along_axis", add_along_axis_gradient},   {"bincount", nullptr, expand_bincount}};
}

}  // namespace flow::grad
