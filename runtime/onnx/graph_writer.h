// A graph of ONNX under construction: nodes in order, initializers, and names that are used once.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/onnx/proto.h"

namespace flow::onnx {

struct NodeAttribute {
  std::string_view name;
  std::variant<int64_t, float, std::string_view, std::vector<int64_t>, std::vector<std::string>>
      value;
};
using NodeAttributes = std::vector<NodeAttribute>;

class GraphWriter {
 public:
  /// The graph outlives this.
  explicit GraphWriter(pb::GraphProto& graph) : graph_(graph) {}

  /// A name that nothing has: `wanted`, or that with a number.
  std::string fresh(std::string_view wanted);
  /// Adds a node behind the others.
  void node(std::string_view type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const NodeAttributes& attributes = {});
  void initializer(const std::string& name, const ArrayView& array);
  /// The name of an initializer of this value, which may have other readers.
  std::string constant(const ArrayView& array);

 private:
  pb::GraphProto& graph_;
  std::set<std::string, std::less<>> names_;
  /// By dtype, extents and bytes.
  std::map<std::tuple<DType, std::vector<int64_t>, std::string>, std::string> constants_;
};

}  // namespace flow::onnx
