// Elements in another shape, order or number.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

void reshape(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  step.need_batch_axis(x, y.batch_axis);
  step.result("Reshape", {x.name, step.reshaping(y.shape, y.batch_axis)});
}

void transpose(StepExport& step) {
  step.result("Transpose", step.names(), {{"perm", step.integers("perm")}});
}

void concat(StepExport& step) {
  step.fix_mixed_batch();
  step.result("Concat", step.names(), {{"axis", step.attribute<int64_t>("axis")}});
}

void stack(StepExport& step) {
  step.fix_mixed_batch();
  const auto axis = step.attribute<int64_t>("axis");
  Strings parts;
  for (const std::string& name : step.names())
    parts.push_back(step.node("Unsqueeze", {name, step.vector({axis})}));
  step.result("Concat", parts, {{"axis", axis}});
}

void split(StepExport& step) {
  const auto axis = step.attribute<int64_t>("axis");
  const Integers& sizes = step.integers("sizes");
  if (step.in().batch_axis == axis || step.in().batch_axis == ops::kBatchReduced) step.fix_batch();
  step.results("Split", {step.in().name, step.vector(sizes)}, sizes.size(), {{"axis", axis}});
}

/// The inputs of Slice. Axes that are taken as a whole are omitted.
struct Cut {
  Integers starts, ends, axes, steps;
  bool empty() const { return axes.empty(); }
};

/// An end below all indices, which in ONNX lets a slice with a negative step include the first
/// element.
constexpr int64_t kBelowAll = std::numeric_limits<int32_t>::min();

Cut cut_of(const StepExport& step) {
  const Value& x = step.in();
  Cut cut;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t start = step.integers("starts")[i], count = step.integers("counts")[i];
    const int64_t stride = step.integers("steps")[i] == 0 ? 1 : step.integers("steps")[i];
    if (start == 0 && stride == 1 && count == x.shape[axis]) continue;
    const int64_t end = start + stride * count;
    cut.starts.push_back(start);
    cut.ends.push_back(end < 0 ? kBelowAll : end);
    cut.axes.push_back(axis);
    cut.steps.push_back(stride);
  }
  return cut;
}

void slice(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  const Cut cut = cut_of(step);
  const bool rows = x.batch_axis >= 0 && std::ranges::count(cut.axes, int64_t{x.batch_axis}) > 0;
  if (rows || x.batch_axis == ops::kBatchReduced) step.fix_batch();
  const Shape counts(step.integers("counts"));
  const auto inputs = [&] {
    return Strings{x.name, step.vector(cut.starts), step.vector(cut.ends), step.vector(cut.axes),
                   step.vector(cut.steps)};
  };
  if (counts == y.shape)
    return cut.empty() ? step.result("Identity", {x.name}) : step.result("Slice", inputs());
  const std::string taken = cut.empty() ? x.name : step.node("Slice", inputs());
  step.result("Reshape", {taken, step.reshaping(y.shape, y.batch_axis)});
}

void tile(StepExport& step) {
  step.result("Tile", {step.in().name, step.vector(step.integers("multiples"))});
}

void flip(StepExport& step) {
  const Integers& axes = step.integers("axes");
  if (axes.empty()) return step.result("Identity", step.names());
  const Integers last(axes.size(), -1), below(axes.size(), kBelowAll);
  step.result("Slice", {step.in().name, step.vector(last), step.vector(below), step.vector(axes),
                        step.vector(last)});
}

/// In Expand, an extent of 1 keeps that of the operand, so the batch keeps its size.
void broadcast_to(StepExport& step) {
  const Value &x = step.in(), &y = step.out();
  if (x.batch_axis == ops::kBatchReduced) step.fix_batch();
  Integers extents = y.shape.extents();
  if (y.batch_axis >= 0) extents[static_cast<size_t>(y.batch_axis)] = 1;
  step.result("Expand", {x.name, step.vector(extents)});
}

/// Returns true if operand i is a constant that no entry has read.
bool is_unread_constant(const NodeImport& node, int i = 0) {
  return node.in(i).value && node.in(i).reference.kind == Reference::Kind::kNone;
}

/// Returns the extents with -1 replaced by its value. Throws Unsupported if they do not match the
/// number of elements.
Shape filled(Integers asked, const Shape& shape) {
  const auto open = std::ranges::find(asked, -1);
  if (open != asked.end()) *open = 1;
  const bool negative = std::ranges::any_of(asked, [](int64_t extent) { return extent < 0; });
  const auto known = negative ? std::nullopt : Shape(asked).checked_elements();
  if (open != asked.end() && known && *known > 0) *open = shape.elements() / *known;
  Shape result(std::move(asked));
  if (!known || result.checked_elements() != shape.elements() || result.rank() > ops::kMaxRank)
    refuse("cannot reshape {} to {}", shape.str(), result.str());
  return result;
}

Tensors reshape(NodeImport& node) {
  Sizes asked = node.sizes("shape", 1).value_or(Sizes());
  const bool zero_is_zero = node.integer("allowzero", 0) != 0;
  const Tensor& x = node.in(0);
  for (size_t i = 0; i < asked.size() && !zero_is_zero; ++i)
    if (asked[i].value == 0 && asked[i].is_fixed() && i < x.shape.extents().size())
      asked[i] = x.size(static_cast<int>(i));
  if (is_unread_constant(node)) {
    node.pin(asked);
    return {node.constant(reshaped(node.followed_value(0), filled(values_of(asked), x.shape)))};
  }
  return {node.reshape(node.operand(0), asked)};
}

Tensors flatten(NodeImport& node) {
  const int64_t given = node.integer("axis", 1), rank = node.rank();
  const int axis = given == rank ? node.rank() : node.axis(given);
  const Tensor x = node.operand(0);
  const Sizes all = x.all_sizes();
  const Size outer = product({all.begin(), all.begin() + axis}),
             inner = product({all.begin() + axis, all.end()});
  if (axis != 1 || rank < 2) return {node.reshape(x, {outer, inner})};
  Tensor flat = node.layer("flatten", {x}, {}, Shape{outer.value, inner.value},
                           x.batch_axis > 0 ? ops::kBatchReduced : x.batch_axis);
  flat.sizes = {outer, inner};
  return {flat};
}

Tensors transpose(NodeImport& node) {
  const bool turned = node.integers("perm").value_or(Integers{1, 0}) == Integers{1, 0};
  if (is_unread_constant(node) && node.rank() == 2 && turned)
    return {node.constant(transposed_matrix(node.value(0)))};
  return {node.call("transpose", {node.operand(0)},
                    {{"perm", node.integers("perm").value_or(Integers())}})};
}

/// Returns rows of a constant, because exporters split weights of layers and join their parts in
/// another order.
Array taken_rows(const Array& array, const Integers& rows) {
  std::vector<int64_t> extents = array.shape().extents();
  const size_t row = array.bytes().size() / static_cast<size_t>(extents[0]);
  extents[0] = std::ssize(rows);
  Array taken(array.dtype(), Shape(std::move(extents)));
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(taken.bytes().data() + i * row,
                array.bytes().data() + static_cast<size_t>(rows[i]) * row, row);
  return taken;
}

/// Returns true if all operands are constants that no entry has read and differ in shape only along
/// axis 0.
bool are_constant_rows(const NodeImport& node) {
  const auto row_of = [&](int i) {
    return Shape({node.in(i).shape.begin() + 1, node.in(i).shape.end()});
  };
  for (int i = 0; i < node.inputs(); ++i) {
    if (!node.has(i) || !is_unread_constant(node, i)) return false;
    if (node.in(i).shape.rank() < 1 || node.in(i).dtype != node.in(0).dtype) return false;
    if (row_of(i) != row_of(0)) return false;
  }
  return node.inputs() > 0;
}

/// Concatenates constants along axis 0.
Tensor joined_rows(const NodeImport& node) {
  std::vector<int64_t> extents = node.in(0).shape.extents();
  uint64_t bytes = 0;
  extents[0] = 0;
  for (int i = 0; i < node.inputs(); ++i) {
    extents[0] += node.in(i).shape[0];
    bytes += node.value(i).bytes().size();
  }
  node.require_computable(bytes);
  Array joined(node.in(0).dtype, Shape(std::move(extents)));
  std::byte* to = joined.bytes().data();
  for (int i = 0; i < node.inputs(); ++i) to = std::ranges::copy(node.value(i).bytes(), to).out;
  return node.constant(std::move(joined));
}

Tensors concat(NodeImport& node) {
  const int64_t axis = node.integer("axis", 1);
  if (node.axis(axis) == 0 && are_constant_rows(node)) return {joined_rows(node)};
  Tensors operands;
  for (int i = 0; i < node.inputs(); ++i)
    if (node.in(i).shape.elements() > 0) operands.push_back(node.operand(i));
  if (operands.size() == 1) return operands;
  Tensor made = node.call("concat", operands, {{"axis", axis}});
  if (made.sizes.empty()) return {made};
  const int along = node.axis(axis);
  std::optional<Size> sum = fixed(0);
  for (const Tensor& operand : operands)
    if (sum) sum = computed("Add", *sum, operand.size(along));
  if (sum) made.sizes[static_cast<size_t>(along)] = *sum;
  return {made};
}

/// Splits a tensor into parts of which some are empty. Empty parts are constants, which Concat
/// omits.
Tensors parts_with_empty(NodeImport& node, int axis, const Integers& sizes) {
  const Tensor x = node.operand(0);
  node.pin_shapes();
  Integers full = sizes;
  std::erase(full, 0);
  Tensors parts = {x};
  if (full != Integers{x.shape[axis]})
    parts = node.calls("split", {x}, {{"axis", axis}, {"parts", full}}, full.size());
  std::vector<int64_t> extents = x.shape.extents();
  extents[static_cast<size_t>(axis)] = 0;
  const Tensor empty = node.constant(Array(x.dtype, Shape(std::move(extents))));
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 0) parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(i), empty);
  return parts;
}

Tensors split(NodeImport& node) {
  const auto parts = static_cast<int64_t>(node.outputs());
  const int axis = node.axis(node.integer("axis", 0));
  const int64_t extent = node.in(0).shape[axis], part = (extent + parts - 1) / parts;
  auto sizes = node.list("split", 1);
  if (node.integer("num_outputs", parts) != parts) refuse("outputs of other parts");
  if (!sizes && node.opset() >= 18 && extent % parts != 0) {  // the last part is smaller
    node.pin({node.in(0).size(axis)});
    sizes = Integers(static_cast<size_t>(parts), part);
    sizes->back() = extent - part * (parts - 1);
  }
  if (sizes && std::ssize(*sizes) != parts) refuse("sizes of other parts");
  if (sizes && std::ranges::count(*sizes, 0) > 0) return parts_with_empty(node, axis, *sizes);
  const ops::Attribute given = sizes ? ops::Attribute(*sizes) : ops::Attribute(parts);
  return node.calls("split", {node.operand(0)}, {{"axis", axis}, {"parts", given}},
                    static_cast<size_t>(parts));
}

/// Returns a bound of a range in the syntax of an index.
std::string bound_text(const NodeImport& node, Size bound) {
  bound.value = std::clamp(bound.value, -kFar, kFar);
  return node.part_text(bound);
}

/// Returns the number of elements that a range takes of an axis.
Size taken_size(const Size& all, const Size& start, const Size& end, int64_t step) {
  if (step == 1 && start.is_fixed() && start.value == 0) {
    if (end.is_fixed() && end.value >= kFar) return all;
    if (end.least >= 0)
      if (auto least = computed("Min", end, all)) return *least;
  }
  return *without_text({all, start, end}, [&](const Integers& values) -> std::optional<int64_t> {
    const auto n = values[0];
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto bound = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, low, high); };
    const int64_t first = bound(values[1]), last = bound(values[2]);
    return std::max<int64_t>(
        0, step > 0 ? (last - first + step - 1) / step : (first - last - step - 1) / -step);
  });
}

Tensors slice(NodeImport& node) {
  const Sizes starts = node.sizes("starts", 1).value_or(Sizes());
  const Sizes ends = node.sizes("ends", 2).value_or(Sizes());
  Integers all(starts.size());
  std::iota(all.begin(), all.end(), 0);
  const Integers axes = node.list("axes", 3).value_or(all);
  const Integers steps = node.has(4) ? node.values_as_int64(4) : Integers(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    refuse("starts, ends, axes and steps of different lengths");
  if (starts.size() == 1 && node.axis(axes[0]) == 0 && is_unread_constant(node) &&
      are_fixed(starts) && are_fixed(ends) && steps[0] != 0) {
    Integers rows(static_cast<size_t>(node.in(0).shape[0]));
    std::iota(rows.begin(), rows.end(), 0);
    rows = taken(rows, starts[0].value, ends[0].value, steps[0]);
    if (!rows.empty()) return {node.constant(taken_rows(node.value(0), rows))};
  }
  std::vector<std::string> index(static_cast<size_t>(node.rank()), ":"), numbers = index;
  Sizes sizes = node.in(0).all_sizes();
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t step = std::clamp(steps[i], -kFar, kFar);
    if (step == 0) refuse("a step of 0");
    const auto axis = static_cast<size_t>(node.axis(axes[i]));
    const bool to_the_end = step > 0 ? ends[i].value >= kFar : ends[i].value <= -kFar;
    const std::string by = step == 1 ? "" : fmt::format(":{}", step);
    const auto number = [](const Size& bound) {
      return std::to_string(std::clamp(bound.value, -kFar, kFar));
    };
    numbers[axis] =
        fmt::format("{}:{}{}", number(starts[i]), to_the_end ? "" : number(ends[i]), by);
    index[axis] = fmt::format("{}:{}{}", bound_text(node, starts[i]),
                              to_the_end ? "" : bound_text(node, ends[i]), by);
    if (to_the_end) node.pin({ends[i]});
    sizes[axis] = taken_size(sizes[axis], starts[i], ends[i], step);
  }
  Texts texts;
  if (index != numbers) texts.emplace("index", fmt::format("\"[{}]\"", fmt::join(index, ", ")));
  Tensor part = node.call("slice", {node.operand(0)},
                          {{"index", fmt::format("[{}]", fmt::join(numbers, ", "))}}, texts);
  if (!are_fixed(sizes)) part.sizes = sizes;
  return {part};
}

/// Returns the same elements in another shape, by an op for this purpose.
Tensors view(NodeImport& node, std::string_view op, const Integers& axes, const Sizes& extents,
             int batch_axis) {
  if (is_unread_constant(node))
    return {node.constant(reshaped(node.followed_value(0), Shape(values_of(extents))))};
  const Tensor x = node.operand(0);
  const ops::Attributes attributes = {{"axis", axes}};
  Tensor made = node.layer(op, {x}, attributes, Shape(values_of(extents)), batch_axis);
  made.sizes = are_fixed(extents) ? Sizes() : extents;
  return {made};
}

Integers sorted_axes(const NodeImport& node, const Integers& given, int rank) {
  Integers axes;
  for (const int64_t axis : given) axes.push_back(node.axis(axis, rank));
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) refuse("an axis twice");
  return axes;
}

Tensors squeeze(NodeImport& node) {
  const Shape& shape = node.in(0).shape;
  Integers axes;
  const auto given = node.list("axes", 1);
  if (given)
    axes = sorted_axes(node, *given, shape.rank());
  else
    for (int axis = 0; axis < shape.rank(); ++axis) {
      // With other sizes, another set of axes could have extent 1.
      node.pin({node.in(0).size(axis)});
      if (shape[axis] == 1) axes.push_back(axis);
    }
  if (axes.empty()) return {node.in(0)};
  Sizes extents;
  int batch_axis = node.in(0).batch_axis, moved = batch_axis;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool dropped = std::ranges::count(axes, int64_t{axis}) > 0;
    if (dropped && shape[axis] != 1) refuse("axis {} of {} is not 1", axis, shape.str());
    if (!dropped) extents.push_back(node.in(0).size(axis));
    if (dropped && axis == batch_axis) moved = ops::kBatchReduced;
    if (dropped && axis < batch_axis) --moved;
  }
  return view(node, "squeeze", axes, extents, moved);
}

Tensors unsqueeze(NodeImport& node) {
  const Integers given = node.list("axes", 1).value_or(Integers());
  const int rank = node.rank() + static_cast<int>(given.size());
  if (rank > ops::kMaxRank) refuse("too many dimensions");
  const Integers axes = sorted_axes(node, given, rank);
  Sizes extents = node.in(0).all_sizes();
  int batch_axis = node.in(0).batch_axis;
  for (const int64_t axis : axes) {
    extents.insert(extents.begin() + axis, fixed(1));
    if (batch_axis >= axis) ++batch_axis;
  }
  if (axes.empty()) return {node.in(0)};
  return view(node, "expand_dims", axes, extents, batch_axis);
}

Tensors tile(NodeImport& node) { return {node.tile(node.operand(0), node.elements(1))}; }

/// Returns the number of copies that extend an axis to the requested extent. The axis has extent 1
/// or the requested extent.
Size copies_of(const NodeImport& node, const Size& extent, const Size& asked) {
  if (asked.value < 1) refuse("an extent of {}", asked.value);
  if (are_same(extent, asked) || (asked.is_fixed() && asked.value == 1)) return fixed(1);
  if (extent.value != 1 && asked.value != 1 && extent.value != asked.value)
    refuse("{} does not broadcast to {}", extent.value, asked.value);
  if (extent.is_fixed()) return extent.value == 1 ? asked : fixed(1);
  node.pin({extent, asked});
  return fixed(extent.value == 1 ? asked.value : 1);
}

/// Copies along axes of size 1, and adds leading axes.
Tensors expand(NodeImport& node) {
  const Sizes asked = node.elements(1);
  if (asked.size() > size_t{ops::kMaxRank}) refuse("too many dimensions");
  Tensor x = node.operand(0);
  Sizes extents = x.all_sizes();
  if (extents.size() < asked.size()) {
    extents.insert(extents.begin(), asked.size() - extents.size(), fixed(1));
    x = node.reshape(x, extents);
  }
  Sizes copies = fixed(Integers(extents.size(), 1));
  const size_t behind = extents.size() - asked.size();
  for (size_t i = 0; i < asked.size(); ++i)
    copies[i + behind] = copies_of(node, extents[i + behind], asked[i]);
  return {node.tile(x, copies)};
}

constexpr Rule kShapeRules[] = {
    {"reshape", "Reshape", reshape, reshape},
    {"", "Flatten", nullptr, flatten},
    {"", "Squeeze", nullptr, squeeze},
    {"", "Unsqueeze", nullptr, unsqueeze},
    {"transpose", "Transpose", transpose, transpose},
    {"concat", "Concat", concat, concat},
    {"stack", "", stack},
    {"split", "Split", split, split},
    {"slice", "Slice", slice, slice},
    {"flip", "", flip},
    {"tile", "Tile", tile, tile},
    {"broadcast_to", "Expand", broadcast_to, expand},
};

}  // namespace

std::span<const Rule> shape_rules() { return kShapeRules; }

}  // namespace flow::onnx
