// Constants, ranges, and values that only depend on shapes.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

void fill(StepExport& step) {
  const std::string value =
      step.number(step.attribute<double>("value"), step.attribute<DType>("dtype"));
  if (step.out().shape.rank() == 0) return step.result("Identity", {value});
  step.result("Expand", {value, step.vector(step.out().shape.extents())});
}

void evenly_spaced(StepExport& step) {
  const auto first = step.attribute<double>("first"), last = step.attribute<double>("last");
  const auto count = step.attribute<int64_t>("count");
  std::vector<double> values(static_cast<size_t>(count), last);
  for (int64_t i = 0; i + 1 < count; ++i)
    values[static_cast<size_t>(i)] =
        first + static_cast<double>(i) * (last - first) / static_cast<double>(count - 1);
  step.result("Identity", {step.numbers(values, step.attribute<DType>("dtype"))});
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
  refuse("a constant without a value");
}

void require_extents(const Integers& extents) {
  for (const int64_t extent : extents)
    if (extent < 1 || extents.size() > size_t{ops::kMaxRank})
      refuse("a result of shape {}", Shape(extents).str());
  if (!Shape(extents).checked_elements()) refuse("a result of shape {}", Shape(extents).str());
}

Tensors constant_of_shape(NodeImport& node) {
  Array value = node.tensor("value").value_or(Array(DType::kFloat32, Shape{1}));
  if (value.shape().elements() != 1) refuse("a value of several elements");
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

/// Returns a bound as a size if it is a whole number, and nothing otherwise.
std::optional<Size> bound_of(const NodeImport& node, int i) {
  const Array wide = converted(node.followed_value(i), DType::kFloat64);
  if (wide.shape().elements() != 1 || node.in(i).dtype != node.in(0).dtype)
    refuse("bounds of several elements or dtypes");
  const double bound = wide.as<double>()[0];
  if (!(std::abs(bound) < kFar) || bound != std::floor(bound)) return {};
  return node.elements(i)[0];
}

/// Returns integers as a constant, because models compute axes with them.
Tensors range(NodeImport& node) {
  const auto start = bound_of(node, 0), stop = bound_of(node, 1), step = bound_of(node, 2);
  const DType dtype = node.in(0).dtype;
  node.ignore("stash_type");  // only affects 16-bit dtypes
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
  if (shape.rank() != 2) refuse("operand {}; expected a matrix", shape.str());
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

constexpr Rule kConstantRules[] = {
    {"", "Constant", nullptr, constant},  {"fill", "ConstantOfShape", fill, constant_of_shape},
    {"", "Shape", nullptr, shape_of},     {"", "Size", nullptr, size_of_operand},
    {"evenly_spaced", "", evenly_spaced}, {"", "Range", nullptr, range},
    {"", "EyeLike", nullptr, eye_like},
};

}  // namespace

std::span<const Rule> constant_rules() { return kConstantRules; }

}  // namespace flow::onnx
