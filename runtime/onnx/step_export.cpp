// Writes the nodes and initializers of a graph, and the nodes of a step.
#include "runtime/onnx/step_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/base/element_types.h"

namespace flow::onnx {
namespace {

std::string_view text_of(const ArrayView& array) {
  return {reinterpret_cast<const char*>(array.data), array.bytes()};
}

struct AttributeWriter {
  pb::AttributeProto& attribute;

  void operator()(int64_t value) const {
    attribute.set_type(pb::AttributeProto::INT);
    attribute.set_i(value);
  }
  void operator()(float value) const {
    attribute.set_type(pb::AttributeProto::FLOAT);
    attribute.set_f(value);
  }
  void operator()(std::string_view value) const {
    attribute.set_type(pb::AttributeProto::STRING);
    attribute.set_s(std::string(value));
  }
  void operator()(const std::vector<int64_t>& values) const {
    attribute.set_type(pb::AttributeProto::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    attribute.set_type(pb::AttributeProto::STRINGS);
    for (const std::string& value : values) attribute.add_strings(value);
  }
};

Array array_of(const std::vector<double>& values, DType dtype, Shape shape) {
  Array array(dtype, std::move(shape));
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::ranges::transform(values, array.as<T>().begin(), flow::convert<T, double>);
  });
  return array;
}

}  // namespace

std::string GraphWriter::fresh(std::string_view wanted) {
  std::string name(wanted);
  for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}.{}", wanted, i);
  return name;
}

void GraphWriter::node(std::string_view type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const NodeAttributes& attributes) {
  pb::NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(type));
  node.set_name(outputs.front());
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const NodeAttribute& given : attributes) {
    pb::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(std::string(given.name));
    std::visit(AttributeWriter{attribute}, given.value);
  }
}

void GraphWriter::initializer(const std::string& name, const ArrayView& array) {
  pb::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(data_type_of(array.dtype));
  for (const int64_t extent : array.shape) tensor.add_dims(extent);
  tensor.set_raw_data(std::string(text_of(array)));
}

std::string GraphWriter::constant(const ArrayView& array) {
  const auto [found, added] =
      constants_.try_emplace({array.dtype, array.shape.extents(), std::string(text_of(array))});
  if (added) {
    found->second = fresh("constant");
    initializer(found->second, array);
  }
  return found->second;
}

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
  return from == to ? name : node("Cast", {name}, {{"to", data_type_of(to)}});
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

std::string StepExport::transposed(const std::string& name, int rank) {
  Integers perm;
  for (int64_t axis = 0; axis < rank; ++axis) perm.push_back(axis);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return node("Transpose", {name}, {{"perm", perm}});
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

void StepExport::fix_mixed_batch() {
  for (size_t i = 1; i < operands(); ++i)
    if (in(i).batch_axis != in(0).batch_axis) fix_batch();
}

void StepExport::need_batch_axis(const Value& x, int batch_axis) {
  if (x.batch_axis == ops::kBatchReduced || (x.batch_axis >= 0 && batch_axis < 0)) fix_batch();
}

}  // namespace flow::onnx
