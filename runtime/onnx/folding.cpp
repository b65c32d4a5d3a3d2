// Computes nodes that only depend on constants, which exporters write for shapes, elements of
// shapes, axes, and factors between sizes.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "ops/core/axes.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

using Folded = std::optional<Tensor>;

/// The most floats in a constant that is computed before a run. Factors between sizes are few.
constexpr int64_t kMostFloats = 8;

bool is_few_floats(const Tensor& tensor) {
  return tensor.value && (tensor.dtype == DType::kFloat32 || tensor.dtype == DType::kFloat64) &&
         tensor.sizes.empty() && tensor.shape.elements() <= kMostFloats;
}

/// Returns true if the node has operands and all of them are known integers.
bool are_integers(const NodeImport& node) {
  for (int i = 0; i < node.inputs(); ++i)
    if (!node.has(i) || !node.is_known(i)) return false;
  return node.inputs() > 0;
}

bool are_floats(const NodeImport& node) {
  for (int i = 0; i < node.inputs(); ++i)
    if (!node.has(i) || !is_few_floats(node.in(i)) || node.in(i).dtype != node.in(0).dtype)
      return false;
  return node.inputs() > 0;
}

/// The offsets in an operand of the elements of a result, along each axis of the result.
using Positions = std::vector<Integers>;

/// Returns the offsets of all elements in order.
Positions positions_along(const Shape& shape) {
  Positions places(shape.extents().size());
  int64_t stride = 1;
  for (size_t axis = places.size(); axis-- > 0; stride *= shape.extents()[axis])
    for (int64_t i = 0; i < shape.extents()[axis]; ++i) places[axis].push_back(i * stride);
  return places;
}

Shape shape_at(const Positions& places) {
  Integers extents;
  for (const Integers& axis : places) extents.push_back(std::ssize(axis));
  return Shape(std::move(extents));
}

/// Returns the sums of offsets along all axes, in order.
Integers all_positions(const Positions& places) {
  Integers positions = {0};
  for (const Integers& axis : places) {
    Integers next;
    for (const int64_t position : positions)
      for (const int64_t place : axis) next.push_back(position + place);
    positions = std::move(next);
  }
  return positions;
}

bool are_few(const Shape& shape) {
  return shape.rank() <= ops::kMaxRank &&
         shape.checked_elements().value_or(kMostFolded + 1) <= kMostFolded;
}

/// Returns the offsets in an operand that is broadcast to `shape`. REQUIRES: the operand broadcasts
/// to `shape`.
Positions broadcast_places(const Shape& from, const Shape& shape) {
  Positions places = positions_along(from);
  const auto added = static_cast<size_t>(shape.rank() - from.rank());
  places.insert(places.begin(), added, Integers{0});
  for (size_t axis = 0; axis < places.size(); ++axis)
    if (places[axis].size() == 1)
      places[axis].assign(static_cast<size_t>(shape.extents()[axis]), 0);
  return places;
}

/// Returns the elements of operand 0 at `positions`, in a new shape.
Folded moved(const NodeImport& node, const Integers& positions, Shape shape) {
  if (node.is_known(0)) {
    const Sizes all = node.elements(0);
    Sizes picked;
    for (const int64_t position : positions) picked.push_back(all[static_cast<size_t>(position)]);
    return node.known(picked, std::move(shape), node.in(0).dtype);
  }
  if (!is_few_floats(node.in(0)) || node.in(0).is_followed()) return {};
  const Array all = converted(node.value(0), DType::kFloat64);
  Array picked(DType::kFloat64, std::move(shape));
  for (size_t i = 0; i < positions.size(); ++i)
    picked.as<double>()[i] = all.as<double>()[static_cast<size_t>(positions[i])];
  return node.constant(converted(picked, node.in(0).dtype));
}

/// Returns the integers of operand i if they depend on no size.
std::optional<Integers> fixed_elements(const NodeImport& node, int i) {
  if (!node.has(i) || !node.is_known(i) || !are_fixed(node.elements(i))) return {};
  return values_of(node.elements(i));
}

Folded fold_gather(NodeImport& node) {
  const auto indices = fixed_elements(node, 1);
  if (!indices || node.rank() == 0) return {};
  const auto axis = static_cast<size_t>(node.axis(node.integer("axis", 0)));
  Positions places = positions_along(node.in(0).shape);
  const Integers along = std::exchange(places[axis], {});
  for (const int64_t index : *indices)
    places[axis].push_back(
        along[static_cast<size_t>(node.axis(index, static_cast<int>(along.size())))]);
  if (!are_few(shape_at(places))) return {};
  Integers extents = shape_at(places).extents();
  const Shape& given = node.in(1).shape;
  const auto at = extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
  extents.insert(at, given.begin(), given.end());
  return moved(node, all_positions(places), Shape(std::move(extents)));
}

/// Returns an attribute, or an operand that depends on no size.
std::optional<Integers> fixed_list(NodeImport& node, std::string_view name, int operand) {
  if (auto found = node.integers(name)) return found;
  return fixed_elements(node, operand);
}

Folded fold_slice(NodeImport& node) {
  const auto starts = fixed_list(node, "starts", 1), ends = fixed_list(node, "ends", 2);
  if (!starts || !ends || starts->size() != ends->size()) return {};
  auto axes = fixed_list(node, "axes", 3), steps = fixed_elements(node, 4);
  if ((!axes && node.has(3)) || (!steps && node.has(4))) return {};
  Positions places = positions_along(node.in(0).shape);
  for (size_t i = 0; i < starts->size(); ++i) {
    const int64_t step = steps && i < steps->size() ? (*steps)[i] : 1;
    const int64_t given = !axes              ? static_cast<int64_t>(i)
                          : i < axes->size() ? (*axes)[i]
                                             : node.rank();
    Integers& along = places[static_cast<size_t>(node.axis(given))];
    if (step == 0) refuse("a step of 0");
    along = taken(along, (*starts)[i], (*ends)[i], step);
  }
  return moved(node, all_positions(places), shape_at(places));
}

Folded fold_transpose(NodeImport& node) {
  Integers perm = node.integers("perm").value_or(Integers());
  if (perm.empty())
    for (int axis = node.rank(); axis-- > 0;) perm.push_back(axis);
  const Positions places = positions_along(node.in(0).shape);
  Positions turned;
  for (const int64_t axis : perm)
    if (std::ranges::count(perm, axis) == 1)
      turned.push_back(places[static_cast<size_t>(node.axis(axis))]);
  if (turned.size() != places.size()) return {};
  return moved(node, all_positions(turned), shape_at(turned));
}

Folded fold_expand(NodeImport& node) {
  const auto asked = fixed_elements(node, 1);
  if (!asked || !are_few(Shape(*asked)) ||
      std::ranges::any_of(*asked, [](int64_t n) { return n < 1; }))
    return {};
  const auto shape = ops::broadcast(node.in(0).shape, Shape(*asked));
  if (!shape || !are_few(*shape)) return {};
  return moved(node, all_positions(broadcast_places(node.in(0).shape, *shape)), *shape);
}

Folded fold_tile(NodeImport& node) {
  const auto copies = fixed_elements(node, 1);
  Positions places = positions_along(node.in(0).shape);
  if (!copies || copies->size() != places.size() || !are_few(Shape(*copies))) return {};
  Integers extents = node.in(0).shape.extents();
  for (size_t axis = 0; axis < places.size(); ++axis) extents[axis] *= (*copies)[axis];
  if (std::ranges::any_of(*copies, [](int64_t n) { return n < 1; }) || !are_few(Shape(extents)))
    return {};
  for (size_t axis = 0; axis < places.size(); ++axis) {
    const Integers once = places[axis];
    for (int64_t i = 1; i < (*copies)[axis]; ++i)
      places[axis].insert(places[axis].end(), once.begin(), once.end());
  }
  return moved(node, all_positions(places), shape_at(places));
}

/// Concatenates vectors of floats.
Folded concat_of_floats(NodeImport& node) {
  std::vector<double> all;
  std::set<std::string> follows;
  for (int i = 0; i < node.inputs(); ++i) {
    const Array part = converted(node.followed_value(i), DType::kFloat64);
    all.insert(all.end(), part.as<double>().begin(), part.as<double>().end());
    follows.insert(node.in(i).follows.begin(), node.in(i).follows.end());
    add_variables(follows, node.in(i).elements);
  }
  Array array(DType::kFloat64, Shape{std::ssize(all)});
  std::ranges::copy(all, array.as<double>().begin());
  Tensor made = node.constant(converted(array, node.in(0).dtype));
  made.follows = std::move(follows);
  return made;
}

/// Concatenates vectors.
Folded fold_concat(NodeImport& node) {
  const bool floats = are_floats(node) && node.rank() == 1 && node.integer("axis", 1) == 0;
  for (int i = 0; i < node.inputs() && floats; ++i)
    if (node.in(i).shape.rank() != 1) return {};
  if (floats) return concat_of_floats(node);
  if (!are_integers(node)) return {};
  Sizes all;
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.in(i).shape.rank() != 1) return {};
    const Sizes part = node.elements(i);
    all.insert(all.end(), part.begin(), part.end());
  }
  node.axis(node.integer("axis", 1));
  const Shape shape{std::ssize(all)};
  return node.known(all, shape, node.in(0).dtype);
}

/// Reduces all elements of a vector.
Folded fold_reduce(NodeImport& node) {
  const Shape& shape = node.in(0).shape;
  if (!node.is_known(0) || node.in(0).dtype == DType::kBool || shape.rank() != 1 || shape[0] == 0)
    return {};
  const auto axes = fixed_list(node, "axes", 1).value_or(Integers());
  const bool keeps_all = node.integer("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && (node.has(1) || keeps_all)) return {};
  const std::string_view type = node.type() == "ReduceProd"  ? "Mul"
                                : node.type() == "ReduceSum" ? "Add"
                                : node.type() == "ReduceMax" ? "Max"
                                                             : "Min";
  const Sizes all = node.elements(0);
  std::optional<Size> result = all[0];
  for (size_t i = 1; i < all.size() && result; ++i) result = computed(type, *result, all[i]);
  if (!result) return {};
  const bool keeps = node.integer("keepdims", 1) != 0;
  return node.known({*result}, keeps ? Shape{1} : Shape(), node.in(0).dtype);
}

/// Converts a constant to another dtype. Elements stay expressions if the conversion keeps all
/// their values distinct.
Folded fold_cast(NodeImport& node) {
  const Tensor& from = node.in(0);
  if (!from.value || !from.sizes.empty()) return {};
  if (from.reference.kind != Reference::Kind::kNone && !from.is_followed()) return {};
  DType to = node.type() == "CastLike" ? node.in(1).dtype
                                       : read_dtype(static_cast<int>(node.integer("to", 0)));
  // These only affect 8-bit floats.
  for (const std::string_view name : {"saturate", "round_mode"}) node.ignore(name);
  if (to == DType::kFloat32) to = node.compute_dtype();
  Tensor made = node.constant(converted(*from.value, to));
  made.follows = from.follows;
  constexpr std::array kExact = {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64};
  if (std::ranges::find(kExact, to) != kExact.end())
    made.elements = from.elements;
  else
    add_variables(made.follows, from.elements);
  return made;
}

/// Returns the result of an operator for two floats. An operator with one operand ignores `b`.
std::optional<double> computed_float(std::string_view type, double a, double b) {
  const auto result = [&]() -> std::optional<double> {
    if (type == "Add" || type == "Sum") return a + b;
    if (type == "Sub") return a - b;
    if (type == "Mul") return a * b;
    if (type == "Div") return a / b;
    if (type == "Max") return std::max(a, b);
    if (type == "Min") return std::min(a, b);
    if (type == "Neg") return -a;
    if (type == "Abs") return std::abs(a);
    if (type == "Sqrt") return std::sqrt(a);
    if (type == "Floor") return std::floor(a);
    if (type == "Ceil") return std::ceil(a);
    if (type == "Reciprocal") return 1 / a;
    return {};
  }();
  return result && std::isfinite(*result) ? result : std::nullopt;
}

/// Returns the shape of the result of broadcasting all operands.
std::optional<Shape> broadcast_shape(const NodeImport& node) {
  std::optional<Shape> shape = node.in(0).shape;
  for (int i = 1; i < node.inputs() && shape; ++i) shape = ops::broadcast(*shape, node.in(i).shape);
  return shape && shape->elements() > 0 && are_few(*shape) ? shape : std::nullopt;
}

/// Combines, for each place of the result, the elements that all operands have there.
template <typename Element, typename Combine>
std::optional<std::vector<Element>> combined(const NodeImport& node, const Shape& shape,
                                             const std::vector<std::vector<Element>>& operands,
                                             Combine combine) {
  std::vector<Integers> positions;
  for (int i = 0; i < node.inputs(); ++i)
    positions.push_back(all_positions(broadcast_places(node.in(i).shape, shape)));
  std::vector<Element> results;
  for (size_t at = 0; at < positions[0].size(); ++at) {
    std::vector<Element> elements;
    for (size_t i = 0; i < operands.size(); ++i)
      elements.push_back(operands[i][static_cast<size_t>(positions[i][at])]);
    const std::optional<Element> result = combine(elements);
    if (!result) return {};
    results.push_back(*result);
  }
  return results;
}

/// Applies an operator of two operands from the first operand to the last.
template <typename Element, typename Of>
std::optional<Element> reduced(const std::vector<Element>& elements, Of of) {
  if (elements.size() == 1) return of(elements[0], elements[0]);
  std::optional<Element> result = elements[0];
  for (size_t i = 1; i < elements.size() && result; ++i) result = of(*result, elements[i]);
  return result;
}

constexpr std::array kConditions = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                    "And",   "Or",   "Xor",         "Not"};

Folded elementwise_integers(NodeImport& node, const Shape& shape) {
  const std::string_view type = node.type();
  const bool is_condition = std::ranges::find(kConditions, type) != kConditions.end();
  const DType given = node.in(type == "Where" ? 1 : 0).dtype;
  if (given == DType::kBool && !is_condition && type != "Where") return {};
  std::vector<Sizes> operands;
  for (int i = 0; i < node.inputs(); ++i) operands.push_back(node.elements(i));
  const auto results =
      combined(node, shape, operands, [&](const Sizes& one) -> std::optional<Size> {
        if (type == "Where") return chosen(one[0], one[1], one[2]);
        return reduced(one, [&](const Size& a, const Size& b) { return computed(type, a, b); });
      });
  if (!results) return {};
  return node.known(*results, shape, is_condition ? DType::kBool : given);
}

Folded elementwise_floats(NodeImport& node, const Shape& shape) {
  std::vector<std::vector<double>> operands;
  std::set<std::string> follows;
  for (int i = 0; i < node.inputs(); ++i) {
    const Array wide = converted(node.followed_value(i), DType::kFloat64);
    operands.emplace_back(wide.as<double>().begin(), wide.as<double>().end());
    follows.insert(node.in(i).follows.begin(), node.in(i).follows.end());
    add_variables(follows, node.in(i).elements);
  }
  const auto results = combined(node, shape, operands, [&](const std::vector<double>& one) {
    return reduced(one, [&](double a, double b) { return computed_float(node.type(), a, b); });
  });
  if (!results) return {};
  Array array(DType::kFloat64, shape);
  std::ranges::copy(*results, array.as<double>().begin());
  Tensor made = node.constant(converted(array, node.in(0).dtype));
  made.follows = std::move(follows);
  return made;
}

Folded fold_elementwise(NodeImport& node) {
  const bool integers = are_integers(node);
  if (!integers && !are_floats(node)) return {};
  if (node.type() == "Mod" && node.integer("fmod", 0) != 0) return {};
  if (node.opset() < 7 && node.integer("axis", -1) >= 0) return {};
  if (node.type() == "Where" && node.inputs() != 3) return {};
  const auto shape = broadcast_shape(node);
  if (!shape) return {};
  for (const std::string_view name : {"broadcast", "axis", "consumed_inputs"}) node.ignore(name);
  return integers ? elementwise_integers(node, *shape) : elementwise_floats(node, *shape);
}

struct FoldingRule {
  std::string_view type;
  Folded (*fold)(NodeImport& node);
};
constexpr FoldingRule kFolding[] = {
    {"Gather", fold_gather},     {"Slice", fold_slice},      {"Transpose", fold_transpose},
    {"Expand", fold_expand},     {"Tile", fold_tile},        {"Concat", fold_concat},
    {"ReduceProd", fold_reduce}, {"ReduceSum", fold_reduce}, {"ReduceMax", fold_reduce},
    {"ReduceMin", fold_reduce},  {"Cast", fold_cast},        {"CastLike", fold_cast},
};

/// The operators that are computed element by element.
constexpr std::array kFoldedElements = {"Add",   "Sub",  "Mul",         "Div",     "Mod",
                                        "Max",   "Min",  "Neg",         "Abs",     "Sign",
                                        "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                        "And",   "Or",   "Xor",         "Not",     "Where",
                                        "Sum",   "Sqrt", "Floor",       "Ceil",    "Reciprocal"};

/// Returns the constant that a node computes, or nothing if it cannot be computed before a run.
Folded folded(NodeImport& node) {
  if (!node.has(0) || node.outputs() != 1) return {};
  if (std::ranges::find(kFoldedElements, node.type()) != kFoldedElements.end())
    return fold_elementwise(node);
  const auto* rule = std::ranges::find(kFolding, node.type(), &FoldingRule::type);
  return rule == std::end(kFolding) ? Folded() : rule->fold(node);
}

/// Returns true if expressions describe all elements of a constant at other sizes.
bool has_texts(const Tensor& constant) {
  return constant.follows.empty() && std::ranges::all_of(constant.elements, &Size::has_text);
}

/// Gives the result of a node that keeps the order of all elements the value of its operand.
void keep_value(const NodeImport& node, Tensor& result) {
  constexpr std::array kKeepOrder = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"};
  if (std::ranges::find(kKeepOrder, node.type()) == kKeepOrder.end() || !node.has(0)) return;
  const Tensor& from = node.in(0);
  if (!from.value || !from.is_followed() || !from.sizes.empty() || !result.sizes.empty()) return;
  if (!result.value)
    result.value = std::make_shared<const Array>(reshaped(*from.value, result.shape));
  result.elements = from.elements;
  result.follows = from.follows;
}

}  // namespace

std::vector<int64_t> taken(const std::vector<int64_t>& values, int64_t start, int64_t end,
                           int64_t step) {
  const auto n = std::ssize(values);
  const int64_t by = std::clamp(step, -kFar, kFar);
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? n : n - 1;
  const auto bound = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, low, high); };
  std::vector<int64_t> part;
  for (int64_t i = bound(start), stop = bound(end); by > 0 ? i < stop : i > stop; i += by)
    part.push_back(values[static_cast<size_t>(i)]);
  return part;
}

Tensors read(const Rule& rule, NodeImport& node) {
  const Folded constant = folded(node);
  if (constant && has_texts(*constant)) return {*constant};
  if (!constant) {
    Tensors results = rule.read(node);
    if (!results.empty()) keep_value(node, results[0]);
    return results;
  }
  // If possible, the value at other sizes is computed during a run.
  try {
    Tensor result = rule.read(node).at(0);
    result.value = constant->value;
    result.elements = constant->elements;
    result.follows = constant->follows;
    return {result};
  } catch (const Unsupported&) {
    return {*constant};
  }
}

}  // namespace flow::onnx
