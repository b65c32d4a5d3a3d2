// Nodes and initializers of a graph.
#include "runtime/onnx/graph_writer.h"

#include <fmt/format.h>

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

}  // namespace flow::onnx
