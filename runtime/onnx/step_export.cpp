// Nodes of a step.
#include "runtime/onnx/step_export.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/base/convert.h"

namespace flow::onnx {
namespace {

Array array_of(const std::vector<double>& values, DType dtype, Shape shape) {
  Array array(dtype, std::move(shape));
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::ranges::transform(values, array.as<T>().begin(), flow::convert<T, double>);
  });
  return array;
}

}  // namespace

std::vector<std::string> StepExport::names() const {
  std::vector<std::string> names;
  for (const Value& operand : operands_) names.push_back(operand.name);
  return names;
}

std::vector<int64_t> StepExport::pads() const {
  const std::vector<int64_t>& padding = integers("padding");
  return {padding[0], padding[2], padding[1], padding[3]};
}

std::string StepExport::node(std::string_view type, const std::vector<std::string>& inputs,
                             const NodeAttributes& attributes) {
  std::string output = state_.graph.fresh(name_ + "/" + std::string(type));
  state_.graph.node(type, inputs, {output}, attributes);
  return output;
}

std::vector<std::string> StepExport::nodes(std::string_view type,
                                           const std::vector<std::string>& inputs, size_t count,
                                           const NodeAttributes& attributes) {
  std::vector<std::string> outputs;
  for (size_t i = 0; i < count; ++i)
    outputs.push_back(state_.graph.fresh(name_ + "/" + std::string(type)));
  state_.graph.node(type, inputs, outputs, attributes);
  return outputs;
}

void StepExport::result(std::string_view type, const std::vector<std::string>& inputs,
                        const NodeAttributes& attributes, size_t i) {
  state_.graph.node(type, inputs, {out(i).name}, attributes);
}

void StepExport::results(std::string_view type, const std::vector<std::string>& inputs,
                         size_t count, const NodeAttributes& attributes) {
  std::vector<std::string> outputs;
  for (size_t i = 0; i < count; ++i)
    outputs.push_back(is_read(i) ? out(i).name : state_.graph.fresh(name_ + "/unread"));
  state_.graph.node(type, inputs, outputs, attributes);
}

std::string StepExport::number(double value, DType dtype) {
  return constant(array_of({value}, dtype, Shape()).view());
}

std::string StepExport::numbers(const std::vector<double>& values, DType dtype) {
  return constant(array_of(values, dtype, Shape{std::ssize(values)}).view());
}

std::string StepExport::vector(const std::vector<int64_t>& values) {
  Array array(DType::kInt64, Shape{std::ssize(values)});
  std::ranges::copy(values, array.as<int64_t>().begin());
  return constant(array.view());
}

std::string StepExport::cast(const std::string& name, DType from, DType to) {
  return from == to ? name : node("Cast", {name}, {{"to", int64_t{data_type_of(to)}}});
}

std::string StepExport::reshaping(const Shape& shape, int batch_axis) {
  std::vector<int64_t> extents = shape.extents();
  if (batch_axis >= 0) extents[static_cast<size_t>(batch_axis)] = -1;
  return vector(extents);
}

std::string StepExport::reshape(const std::string& value, const Shape& shape, int batch_axis) {
  return node("Reshape", {value, reshaping(shape, batch_axis)});
}

std::string StepExport::along(const std::string& vector_name, int axis, int rank) {
  if (axis == rank - 1) return vector_name;
  std::vector<int64_t> added;
  for (int i = axis + 1; i < rank; ++i) added.push_back(i - axis);
  return node("Unsqueeze", {vector_name, vector(added)});
}

void StepExport::fix_batch() {
  if (state_.fixed_batch.empty()) state_.fixed_batch = name_;
}

void StepExport::fix_batch_of_constant(size_t i, int inner) {
  if (out().batch_axis < 0 || in(i).batch_axis != ops::kNoBatch) return;
  const Shape& shape = in(i).shape;
  const int axis = out().batch_axis - (out().shape.rank() - shape.rank());
  if (axis >= 0 && axis < shape.rank() - inner && shape[axis] > 1) fix_batch();
}

const ExportRule* find_rule(const ops::OpSpec* op) {
  static const auto kRules = [] {
    std::map<const ops::OpSpec*, const ExportRule*> rules;
    for (const auto list : {elementwise_rules(), shape_rules(), layer_rules(), random_rules(),
                            recurrent_rules(), reduction_rules()})
      for (const ExportRule& rule : list) rules.emplace(ops::find_spec(rule.op), &rule);
    return rules;
  }();
  const auto found = kRules.find(op);
  return found == kRules.end() ? nullptr : found->second;
}

}  // namespace flow::onnx
