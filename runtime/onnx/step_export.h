// One step of a plan, or an op fused onto one, as the functions see it that write its nodes, and
// the graph of ONNX to which they add them.
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

/// A tensor, by the name that it has in the graph of ONNX.
struct Value {
  std::string name;
  DType dtype;
  Shape shape;
  int batch_axis = ops::kNoBatch;
};

/// What all steps of a job have in common.
struct ExportState {
  GraphWriter graph;
  /// Why the model takes only batches of the job's size; empty: it takes any.
  std::string fixed_batch = {};
};

class StepExport {
 public:
  /// A result that nobody reads has no name.
  StepExport(ExportState& state, std::string name, std::string_view type,
             const ops::Attributes& attributes, std::vector<Value> operands,
             std::vector<Value> results)
      : state_(state),
        name_(std::move(name)),
        type_(type),
        attributes_(attributes),
        operands_(std::move(operands)),
        results_(std::move(results)) {}

  /// The operator that the rule names.
  std::string_view type() const { return type_; }
  size_t operands() const { return operands_.size(); }
  const Value& in(size_t i = 0) const { return operands_[i]; }
  /// The names of all operands.
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
  /// A number as ONNX has it.
  float float32(std::string_view name) const { return static_cast<float>(attribute<double>(name)); }
  /// The attribute `padding`, top, bottom, left, right, as ONNX has it: all starts before all ends.
  std::vector<int64_t> pads() const;

  /// Adds a node on the way to the result; the name of its output.
  std::string node(std::string_view type, const std::vector<std::string>& inputs,
                   const NodeAttributes& attributes = {});
  /// Adds a node with `count` outputs, on the way to results.
  std::vector<std::string> nodes(std::string_view type, const std::vector<std::string>& inputs,
                                 size_t count, const NodeAttributes& attributes = {});
  /// Adds the node that makes result i.
  void result(std::string_view type, const std::vector<std::string>& inputs,
              const NodeAttributes& attributes = {}, size_t i = 0);
  bool is_read(size_t i) const { return i < results_.size() && !results_[i].name.empty(); }
  /// Adds the node that makes all results, `count` of them.
  void results(std::string_view type, const std::vector<std::string>& inputs, size_t count,
               const NodeAttributes& attributes = {});

  /// A scalar of that dtype.
  std::string number(double value, DType dtype);
  /// One of operand 0's dtype.
  std::string number(double value) { return number(value, in().dtype); }
  /// A vector of that dtype.
  std::string numbers(const std::vector<double>& values, DType dtype);
  /// A vector of int64.
  std::string vector(const std::vector<int64_t>& values);
  std::string constant(const ArrayView& array) { return state_.graph.constant(array); }
  /// `name`, cast to a dtype, unless it is `from` already.
  std::string cast(const std::string& name, DType from, DType to);

  /// For the input "shape" of Reshape: the extents, with -1 for the batch.
  std::string reshaping(const Shape& shape, int batch_axis);
  /// The value in another shape. `batch_axis`: of that shape.
  std::string reshape(const std::string& value, const Shape& shape, int batch_axis);
  /// A vector along `axis` of a tensor of that rank: [C] as [C, 1, 1].
  std::string along(const std::string& vector, int axis, int rank);
  /// The value with its last two axes exchanged.
  std::string transposed(const std::string& name, int rank);

  /// The model takes only batches of the job's size.
  void fix_batch();
  /// Does so where operand i broadcasts to the result, is not of the batch, and yet has as many
  /// rows. `inner`: last axes that do not broadcast.
  void fix_batch_of_constant(size_t i, int inner = 0);
  /// Does so where rows of the batch stand beside rows that are not.
  void fix_mixed_batch();
  /// Does so where the extents of what is made of `x` are known only if rows of the batch are one
  /// of them.
  void need_batch_axis(const Value& x, int batch_axis);

 private:
  ExportState& state_;
  std::string name_;
  std::string_view type_;
  const ops::Attributes& attributes_;
  std::vector<Value> operands_, results_;
};

/// Writes an operator of ONNX that is the op.
inline void direct(StepExport& step) { step.result(step.type(), step.names()); }

/// What ONNX's operator reads in the place of `step`: the input (N T, F), its weight and bias,
/// weight and bias of the state, initial states, and lengths where the step has them. An invalid
/// id: no bias, or zeros. Nothing if something else makes the gates.
std::optional<std::vector<plan::TensorId>> recurrent_operands(const plan::Job& job,
                                                              const plan::Step& step);

}  // namespace flow::onnx
