// A step of a plan, or an op that is fused onto a step, with the functions that write its nodes,
// and the graph of ONNX to which they are added.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/base/array.h"
#include "runtime/onnx/proto.h"
#include "runtime/plan/model/plan.h"

namespace flow::onnx {

struct NodeAttribute {
  std::string_view name;
  std::variant<int64_t, float, std::string_view, std::vector<int64_t>, std::vector<std::string>>
      value;
};
using NodeAttributes = std::vector<NodeAttribute>;

class GraphWriter {
 public:
  /// The graph must outlive this object.
  explicit GraphWriter(pb::GraphProto& graph) : graph_(graph) {}

  /// Returns an unused name: `wanted`, or `wanted` with a number.
  std::string fresh(std::string_view wanted);
  /// Appends a node.
  void node(std::string_view type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const NodeAttributes& attributes = {});
  void initializer(const std::string& name, const ArrayView& array);
  /// Returns the name of an initializer with this value, which other nodes may read, too.
  std::string constant(const ArrayView& array);

 private:
  pb::GraphProto& graph_;
  std::set<std::string, std::less<>> names_;
  /// The names of initializers, indexed by dtype, extents and bytes.
  std::map<std::tuple<DType, std::vector<int64_t>, std::string>, std::string> constants_;
};

/// A tensor, with its name in the ONNX graph.
struct Value {
  std::string name;
  DType dtype;
  Shape shape;
  int batch_axis = ops::kNoBatch;
};

/// The state that all steps of a job share.
struct ExportState {
  GraphWriter graph;
  /// The reason why the model only accepts batches of the job's size. It is empty if the model
  /// accepts any size.
  std::string fixed_batch = {};
};

class StepExport {
 public:
  /// A result that no step reads has no name.
  StepExport(ExportState& state, std::string name, std::string_view type,
             const ops::Attributes& attributes, std::vector<Value> operands,
             std::vector<Value> results)
      : state_(state),
        name_(std::move(name)),
        type_(type),
        attributes_(attributes),
        operands_(std::move(operands)),
        results_(std::move(results)) {}

  /// Returns the operator that the rule names.
  std::string_view type() const { return type_; }
  size_t operands() const { return operands_.size(); }
  const Value& in(size_t i = 0) const { return operands_[i]; }
  /// Returns the names of all operands.
  std::vector<std::string> names() const;
  size_t results() const { return results_.size(); }
  const Value& out(size_t i = 0) const { return results_[i]; }
  const ops::Attributes& attributes() const { return attributes_; }
  bool has(std::string_view name) const { return attributes_.has(name); }
  template <typename T>
  const T& attribute(std::string_view name) const {
    return attributes_.get<T>(name);
  }
  const Integers& integers(std::string_view name) const { return attribute<Integers>(name); }
  /// Returns a number attribute as float32, which is the type of ONNX's attributes.
  float float32(std::string_view name) const { return static_cast<float>(attribute<double>(name)); }
  /// Returns the attribute `padding` (top, bottom, left, right) in the order of ONNX: all starts
  /// before all ends.
  std::vector<int64_t> pads() const;

  /// Adds an intermediate node and returns the name of its output.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const NodeAttributes& attributes = {});
  /// Adds an intermediate node with `count` outputs.
  std::vector<std::string> nodes(std::string_view type, const std::vector<std::string>& inputs,
                                 size_t count, const NodeAttributes& attributes = {});
  /// Adds the node that makes result i.
  void result(std::string_view type, const std::vector<std::string>& inputs,
              const NodeAttributes& attributes = {}, size_t i = 0);
  bool is_read(size_t i) const { return i < results_.size() && !results_[i].name.empty(); }
  /// Adds the node that makes all `count` results.
  void results(std::string_view type, const std::vector<std::string>& inputs, size_t count,
               const NodeAttributes& attributes = {});

  /// Returns the name of a scalar of this dtype.
  std::string number(double value, DType dtype);
  /// Returns the name of a scalar of operand 0's dtype.
  std::string number(double value) { return number(value, in().dtype); }
  /// Returns the name of a vector of this dtype.
  std::string numbers(const std::vector<double>& values, DType dtype);
  /// Returns the name of a vector of int64.
  std::string vector(const std::vector<int64_t>& values);
  std::string constant(const ArrayView& array) { return state_.graph.constant(array); }
  /// Returns `name` cast from `from` to `to`, or `name` itself if the dtypes are equal.
  std::string cast(const std::string& name, DType from, DType to);

  /// Returns the input "shape" of Reshape: the extents, with -1 for the batch.
  std::string reshaping(const Shape& shape, int batch_axis);
  /// Reshapes a value. `batch_axis` is that of the new shape.
  std::string reshape(const std::string& value, const Shape& shape, int batch_axis);
  /// Reshapes a vector to extend along `axis` of a tensor with this rank: [C] becomes [C, 1, 1].
  std::string along(const std::string& vector, int axis, int rank);
  /// Exchanges the last two axes of a value.
  std::string transposed(const std::string& name, int rank);

  /// Limits the model to batches of the job's size.
  void fix_batch();
  /// Calls fix_batch() if operand i broadcasts to the result and is not part of the batch, but has
  /// as many rows. `inner` is the number of last axes that do not broadcast.
  void fix_batch_of_constant(size_t i, int inner = 0);
  /// Calls fix_batch() if some operands have rows of the batch and others do not.
  void fix_mixed_batch();
  /// Calls fix_batch() if the extents of a result computed from `x` are only known if one of them
  /// is the number of rows in the batch.
  void need_batch_axis(const Value& x, int batch_axis);

 private:
  ExportState& state_;
  std::string name_;
  std::string_view type_;
  const ops::Attributes& attributes_;
  std::vector<Value> operands_, results_;
};

/// Writes the ONNX operator that corresponds to the op.
inline void direct(StepExport& step) { step.result(step.type(), step.names()); }

/// Returns the operands that ONNX's operator reads in place of those of `step`: the input (N T, F),
/// its weight and bias, the weight and bias of the state, initial states, and lengths if the step
/// has them. An invalid id means no bias, or zeros. Returns nothing if the gates are not computed
/// in this form.
std::optional<std::vector<plan::TensorId>> recurrent_operands(const plan::Job& job,
                                                              const plan::Step& step);

}  // namespace flow::onnx
