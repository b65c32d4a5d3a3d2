// Operators that move elements, and reductions. What is computed from shapes alone, as exporters
// write it, is computed here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/onnx/node_import.h"

namespace flow::onnx {
namespace {

using Integers = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

/// Beyond all indices.
constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

/// Is operand i a constant that no entry has read?
bool is_unread_constant(const NodeImport& node, int i = 0) {
  return node.in(i).value && node.in(i).reference.kind == Reference::Kind::kNone;
}

Tensors constant(NodeImport& node) {
  if (auto value = node.tensor("value")) return {node.constant(std::move(*value))};
  if (const auto* found = node.find("value_float", pb::AttributeProto::FLOAT)) {
    Array array(DType::kFloat32, Shape());
    array.as<float>()[0] = found->f();
    return {node.constant(std::move(array))};
  }
  if (const auto* found = node.find("value_floats", pb::AttributeProto::FLOATS)) {
    Array array(DType::kFloat32, Shape{found->floats_size()});
    std::ranges::copy(found->floats(), array.as<float>().begin());
    return {node.constant(std::move(array))};
  }
  if (const auto* found = node.find("value_int", pb::AttributeProto::INT))
    return {node.constant(int64_array({found->i()}, Shape()))};
  if (const auto values = node.integers("value_ints"))
    return {node.constant(int64_array(*values, Shape{std::ssize(*values)}))};
  throw Unsupported("a constant without a value");
}

void require_extents(const Integers& extents) {
  for (const int64_t extent : extents)
    if (extent < 1 || extents.size() > size_t{ops::kMaxRank})
      throw Unsupported(fmt::format("a result of shape {}", Shape(extents).str()));
  if (!Shape(extents).checked_elements())
    throw Unsupported(fmt::format("a result of shape {}", Shape(extents).str()));
}

Tensors constant_of_shape(NodeImport& node) {
  Array value = node.tensor("value").value_or(Array(DType::kFloat32, Shape{1}));
  if (value.shape().elements() != 1) throw Unsupported("a value of several elements");
  const Sizes sizes = node.elements(0);
  const Integers extents = values_of(sizes);
  const Tensor one = node.constant(std::move(value));
  const double number = converted(*one.value, DType::kFloat64).as<double>()[0];
  const bool countable = extents.size() <= size_t{ops::kMaxRank} &&
                         std::ranges::all_of(extents, [](int64_t extent) { return extent >= 0; });
  const int64_t count =
      countable ? Shape(extents).checked_elements().value_or(kMostFolded + 1) : kMostFolded + 1;
  if (is_integer(one.dtype) && count <= kMostFolded && are_fixed(sizes)) {
    const Integers values(static_cast<size_t>(count), static_cast<int64_t>(number));
    return {node.constant(converted(int64_array(values, Shape(extents)), one.dtype))};
  }
  require_extents(extents);
  return {node.fill(number, sizes, one.dtype)};
}

Tensors shape_of(NodeImport& node) {
  const Sizes extents = node.in(0).all_sizes();
  const auto rank = static_cast<int64_t>(extents.size());
  const auto clamped = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamped(node.integer("start", 0)), end = clamped(node.integer("end", rank));
  const Sizes part(extents.begin() + start, extents.begin() + std::max(start, end));
  return {node.known(part, Shape{std::ssize(part)}, DType::kInt64)};
}

Tensors size_of_operand(NodeImport& node) {
  return {node.known({product(node.in(0).all_sizes())}, Shape(), DType::kInt64)};
}

/// A bound as a size, where it is a whole number.
std::optional<Size> bound_of(const NodeImport& node, int i) {
  const Array wide = converted(node.followed_value(i), DType::kFloat64);
  if (wide.shape().elements() != 1 || node.in(i).dtype != node.in(0).dtype)
    throw Unsupported("bounds of several elements or dtypes");
  const double bound = wide.as<double>()[0];
  if (!(std::abs(bound) < kFar) || bound != std::floor(bound)) return {};
  return node.elements(i)[0];
}

/// Integers as a constant: models compute axes with them.
Tensors range(NodeImport& node) {
  const auto start = bound_of(node, 0), stop = bound_of(node, 1), step = bound_of(node, 2);
  const DType dtype = node.in(0).dtype;
  node.ignore("stash_type");  // of 16 bits
  if (!start || !stop || !step || step->value == 0) {
    const auto number = [&](int i) {
      return converted(node.value(i), DType::kFloat64).as<double>()[0];
    };
    return {node.range(number(0), number(1), number(2), dtype)};
  }
  Integers values;
  for (int64_t at = start->value; is_integer(dtype) && values.size() <= size_t{kMostFolded} &&
                                  (step->value > 0 ? at < stop->value : at > stop->value);
       at += step->value)
    values.push_back(at);
  const bool few = !values.empty() && values.size() <= size_t{kMostFolded};
  const Shape shape{std::ssize(values)};
  if (few && are_fixed({*start, *stop, *step})) return {node.known(fixed(values), shape, dtype)};
  Tensor made = node.range(*start, *stop, *step, dtype);
  if (!few) return {made};
  made.value = node.known(fixed(values), shape, dtype).value;
  add_variables(made.follows, {*start, *stop, *step});
  return {made};
}

Tensors eye_like(NodeImport& node) {
  const Shape& shape = node.in(0).shape;
  if (shape.rank() != 2)
    throw Unsupported(fmt::format("operand {}; expected a matrix", shape.str()));
  DType dtype = node.in(0).dtype;
  if (const auto* found = node.find("dtype", pb::AttributeProto::INT))
    dtype = read_dtype(static_cast<int>(found->i()));
  if (dtype == DType::kFloat32) dtype = node.compute_dtype();
  Tensor result = node.layer("eye", {},
                             {{"rows", shape[0]},
                              {"columns", shape[1]},
                              {"diagonal", node.integer("k", 0)},
                              {"dtype", dtype}},
                             shape, ops::kNoBatch);
  result.dtype = dtype;
  node.write("rows", node.in(0).size(0));
  node.write("columns", node.in(0).size(1));
  result.sizes = node.in(0).sizes;
  return {result};
}

/// The extents with what a -1 stands for. Unsupported where the elements do not fill them.
Shape filled(Integers asked, const Shape& shape) {
  const auto open = std::ranges::find(asked, -1);
  if (open != asked.end()) *open = 1;
  const bool negative = std::ranges::any_of(asked, [](int64_t extent) { return extent < 0; });
  const auto known = negative ? std::nullopt : Shape(asked).checked_elements();
  if (open != asked.end() && known && *known > 0) *open = shape.elements() / *known;
  Shape result(std::move(asked));
  if (!known || result.checked_elements() != shape.elements() || result.rank() > ops::kMaxRank)
    throw Unsupported(fmt::format("cannot reshape {} to {}", shape.str(), result.str()));
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

/// Rows of a constant; exporters cut weights of layers in parts, and join them in another order.
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

/// Are all operands constants that no entry has read, with the shape of the first but for axis 0?
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

/// Constants one behind the other.
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

/// Parts of which some are empty: constants, which Concat leaves out.
Tensors parts_with_empty(NodeImport& node, int axis, const Integers& sizes) {
  const Tensor x = node.operand(0);
  node.pin_shapes();
  Integers full = sizes;
  std::erase(full, 0);
  Tensors parts = {x};
  if (full != Integers{x.shape[axis]})
    parts = node.calls("split", {x}, {{"axis", int64_t{axis}}, {"parts", full}}, full.size());
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
  if (node.integer("num_outputs", parts) != parts) throw Unsupported("outputs of other parts");
  if (!sizes && node.opset() >= 18 && extent % parts != 0) {  // the last part is smaller
    node.pin({node.in(0).size(axis)});
    sizes = Integers(static_cast<size_t>(parts), part);
    sizes->back() = extent - part * (parts - 1);
  }
  if (sizes && std::ssize(*sizes) != parts) throw Unsupported("sizes of other parts");
  if (sizes && std::ranges::count(*sizes, 0) > 0) return parts_with_empty(node, axis, *sizes);
  const ops::Attribute given = sizes ? ops::Attribute(*sizes) : ops::Attribute(parts);
  return node.calls("split", {node.operand(0)}, {{"axis", int64_t{axis}}, {"parts", given}},
                    static_cast<size_t>(parts));
}

/// One bound of a range, as an index writes it.
std::string bound_text(const NodeImport& node, Size bound) {
  bound.value = std::clamp(bound.value, -kFar, kFar);
  return node.part_text(bound);
}

/// How much a range takes of an axis.
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
    throw Unsupported("starts, ends, axes and steps of different lengths");
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
    if (step == 0) throw Unsupported("a step of 0");
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

/// Pads of all axes, from those of some.
Sizes pads_of_axes(const NodeImport& node, const Sizes& given, const Integers& axes) {
  const auto rank = static_cast<size_t>(node.rank());
  if (given.size() != 2 * axes.size()) throw Unsupported("pads of another number of axes");
  Sizes pads(2 * rank, fixed(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(node.axis(axes[i]));
    pads[axis] = given[i];
    pads[axis + rank] = given[i + axes.size()];
  }
  return pads;
}

/// A part of x along an axis.
Tensor part_of(NodeImport& node, const Tensor& x, size_t axis, int64_t from, int64_t to) {
  std::vector<std::string> index(x.shape.extents().size(), ":");
  index[axis] = fmt::format("{}:{}", from, to);
  return node.call("slice", {x}, {{"index", fmt::format("[{}]", fmt::join(index, ", "))}});
}

/// Cuts off what negative pads say, which become 0. `pairs`: for both sides of each axis.
Tensor without_ends(NodeImport& node, const Tensor& of, Integers& pairs) {
  Tensor x = of;
  for (size_t axis = 0; 2 * axis < pairs.size(); ++axis) {
    int64_t &begin = pairs[2 * axis], &end = pairs[2 * axis + 1];
    if (begin >= 0 && end >= 0) continue;
    const int64_t extent = x.shape.extents()[axis];
    if (begin <= -extent || end <= -extent) throw Unsupported("pads that leave nothing");
    x = part_of(node, x, axis, std::max<int64_t>(-begin, 0), extent + std::min<int64_t>(end, 0));
    begin = std::max<int64_t>(begin, 0);
    end = std::max<int64_t>(end, 0);
  }
  return x;
}

/// Continued with the other end along each axis.
Tensor wrapped(NodeImport& node, const Tensor& of, const Integers& pairs) {
  Tensor x = of;
  for (size_t axis = 0; 2 * axis < pairs.size(); ++axis) {
    const int64_t extent = x.shape.extents()[axis], begin = pairs[2 * axis],
                  end = pairs[2 * axis + 1];
    if (begin > extent || end > extent) throw Unsupported("wrap pads longer than the axis");
    Tensors parts = {x};
    if (begin > 0) parts.insert(parts.begin(), part_of(node, x, axis, extent - begin, extent));
    if (end > 0) parts.push_back(part_of(node, x, axis, 0, end));
    if (parts.size() > 1) x = node.call("concat", parts, {{"axis", static_cast<int64_t>(axis)}});
  }
  return x;
}

Tensors pad(NodeImport& node) {
  Sizes pads =
      node.sizes("pads", 1).value_or(fixed(node.integers("paddings").value_or(Integers())));
  double value = node.number("value", 0);
  if (node.has(2)) {
    if (node.value(2).shape().elements() != 1)
      throw Unsupported("a pad value that is not one number");
    value = converted(node.value(2), DType::kFloat64).as<double>()[0];
  }
  const auto half = static_cast<size_t>(node.rank());
  if (node.has(3)) pads = pads_of_axes(node, pads, node.values_as_int64(3));
  if (pads.size() != 2 * half) throw Unsupported("pads of another number of dimensions");
  const std::string mode = node.text("mode", "constant");
  Integers pairs;
  const bool cuts = std::ranges::any_of(pads, [](const Size& pad) { return pad.value < 0; });
  const bool are_plain = !cuts && mode != "wrap";
  if (!are_plain) node.pin(pads);
  if (!are_plain) node.pin(node.in(0).sizes);
  for (size_t i = 0; i < half; ++i)
    for (const size_t side : {i, i + half}) pairs.push_back(pads[side].value);
  const Tensor x = without_ends(node, node.operand(0), pairs);
  if (std::ranges::count(pairs, 0) == std::ssize(pairs) && (cuts || are_fixed(pads))) return {x};
  if (mode == "wrap") return {wrapped(node, x, pairs)};
  Sizes sizes;
  std::vector<std::string> texts;
  for (size_t i = 0; i < half && are_plain; ++i) {
    texts.push_back(fmt::format("[{}, {}]", node.text(pads[i]), node.text(pads[i + half])));
    sizes.push_back(*without_text(
        {x.size(static_cast<int>(i)), pads[i], pads[i + half]},
        [](const Integers& values) { return std::optional(values[0] + values[1] + values[2]); }));
  }
  const bool follow = are_plain && !are_fixed(pads);
  Tensor made = node.call(
      "pad", {x}, {{"paddings", pairs}, {"mode", mode}, {"value", value}},
      follow ? Texts{{"paddings", fmt::format("[{}]", fmt::join(texts, ", "))}} : Texts());
  if (follow) made.sizes = sizes;
  return {made};
}

/// The middle of each axis, or the whole in the middle of zeros.
Tensors center_crop_pad(NodeImport& node) {
  const Integers sizes = node.values_as_int64(1);
  node.pin_shapes();
  Integers axes(sizes.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.integers("axes").value_or(axes);
  if (axes.size() != sizes.size())
    throw Unsupported(fmt::format("{} sizes for {} axes", sizes.size(), axes.size()));
  Integers pairs(2 * static_cast<size_t>(node.rank()), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = node.axis(axes[i]);
    if (sizes[i] < 1 || sizes[i] > ops::kMaxSize)
      throw Unsupported(fmt::format("a size of {}", sizes[i]));
    const int64_t added = sizes[i] - node.in(0).shape[axis];
    const auto begin = 2 * static_cast<size_t>(axis);
    pairs[begin] = added / 2;  // toward 0
    pairs[begin + 1] = added - pairs[begin];
  }
  const Tensor x = without_ends(node, node.operand(0), pairs);
  if (std::ranges::count(pairs, 0) == std::ssize(pairs)) return {x};
  return {node.call("pad", {x}, {{"paddings", pairs}, {"mode", "constant"}, {"value", 0.0}})};
}

/// In another shape of the same elements, by an op that says how.
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
  if (std::ranges::adjacent_find(axes) != axes.end()) throw Unsupported("an axis twice");
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
      node.pin({node.in(0).size(axis)});  // an axis of 1 may be longer, and another one 1
      if (shape[axis] == 1) axes.push_back(axis);
    }
  if (axes.empty()) return {node.in(0)};
  Sizes extents;
  int batch_axis = node.in(0).batch_axis, moved = batch_axis;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool dropped = std::ranges::count(axes, int64_t{axis}) > 0;
    if (dropped && shape[axis] != 1)
      throw Unsupported(fmt::format("axis {} of {} is not 1", axis, shape.str()));
    if (!dropped) extents.push_back(node.in(0).size(axis));
    if (dropped && axis == batch_axis) moved = ops::kBatchReduced;
    if (dropped && axis < batch_axis) --moved;
  }
  return view(node, "squeeze", axes, extents, moved);
}

Tensors unsqueeze(NodeImport& node) {
  const Integers given = node.list("axes", 1).value_or(Integers());
  const int rank = node.rank() + static_cast<int>(given.size());
  if (rank > ops::kMaxRank) throw Unsupported("too many dimensions");
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

/// The copies that make an axis as long as asked. It is 1, or as long already.
Size copies_of(const NodeImport& node, const Size& extent, const Size& asked) {
  if (asked.value < 1) throw Unsupported(fmt::format("an extent of {}", asked.value));
  if (are_same(extent, asked) || (asked.is_fixed() && asked.value == 1)) return fixed(1);
  if (extent.value != 1 && asked.value != 1 && extent.value != asked.value)
    throw Unsupported(fmt::format("{} does not broadcast to {}", extent.value, asked.value));
  if (extent.is_fixed()) return extent.value == 1 ? asked : fixed(1);
  node.pin({extent, asked});
  return fixed(extent.value == 1 ? asked.value : 1);
}

/// Along axes of size 1, copies; leading axes are added.
Tensors expand(NodeImport& node) {
  const Sizes asked = node.elements(1);
  if (asked.size() > size_t{ops::kMaxRank}) throw Unsupported("too many dimensions");
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

Tensors triangle(NodeImport& node) {
  const Integers diagonal = node.has(1) ? node.values_as_int64(1) : Integers{0};
  if (diagonal.size() != 1) throw Unsupported("several diagonals");
  return {node.call(node.integer("upper", 1) != 0 ? "triu" : "tril", {node.operand(0)},
                    {{"diagonal", diagonal[0]}})};
}

Tensors cumulative(NodeImport& node) {
  const Integers axis = node.values_as_int64(1);
  if (axis.size() != 1) throw Unsupported("several axes");
  return {node.call(node.op(), {node.operand(0)},
                    {{"axis", axis[0]},
                     {"exclusive", node.integer("exclusive", 0) != 0},
                     {"reverse", node.integer("reverse", 0) != 0}})};
}

/// What comes before the reduction, and behind it.
struct Steps {
  std::string_view type, before, behind;
};
constexpr Steps kSteps[] = {{"ReduceL1", "abs", ""},
                            {"ReduceL2", "square", "sqrt"},
                            {"ReduceSumSquare", "square", ""},
                            {"ReduceLogSum", "", "log"}};

Tensors reduce(NodeImport& node) {
  const Integers axes = node.list("axes", 1).value_or(Integers());
  const bool keeps_all = node.integer("noop_with_empty_axes", 0) != 0 && axes.empty();
  const bool keeps_axes = node.integer("keepdims", 1) != 0;
  const auto* steps = std::ranges::find(kSteps, node.type(), &Steps::type);
  const bool has_steps = steps != std::end(kSteps);
  Tensor result = node.operand(0);
  if (has_steps && !steps->before.empty()) result = node.call(steps->before, {result});
  if (!keeps_all)
    result = node.call(node.op(), {result}, {{"axis", axes}, {"keepdims", keeps_axes}});
  if (has_steps && !steps->behind.empty()) result = node.call(steps->behind, {result});
  return {result};
}

constexpr ImportRule kShapeImports[] = {
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Shape", shape_of},
    {"Size", size_of_operand},
    {"Range", range},
    {"EyeLike", eye_like},
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Transpose", transpose},
    {"Concat", concat},
    {"Split", split},
    {"Slice", slice},
    {"Pad", pad},
    {"CenterCropPad", center_crop_pad},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Tile", tile},
    {"Expand", expand},
    {"Trilu", triangle},
    {"CumSum", cumulative, "cumsum"},
    {"CumProd", cumulative, "cumprod"},
    {"ReduceSum", reduce, "reduce_sum"},
    {"ReduceMean", reduce, "reduce_mean"},
    {"ReduceMax", reduce, "reduce_max"},
    {"ReduceMin", reduce, "reduce_min"},
    {"ReduceProd", reduce, "reduce_prod"},
    {"ReduceLogSumExp", reduce, "logsumexp"},
    {"ReduceL1", reduce, "reduce_sum"},
    {"ReduceL2", reduce, "reduce_sum"},
    {"ReduceSumSquare", reduce, "reduce_sum"},
    {"ReduceLogSum", reduce, "reduce_sum"},
};

}  // namespace

std::span<const ImportRule> shape_imports() { return kShapeImports; }

}  // namespace flow::onnx
