// One node of a model, as the functions see it that make entries of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/onnx/external_data.h"
#include "runtime/onnx/job_writer.h"
#include "runtime/onnx/tensor_reader.h"

namespace flow::onnx {

/// What is computed before a run has no more elements.
inline constexpr int64_t kMostFolded = 4096;

/// Bytes of all constants that nodes compute from others.
inline constexpr uint64_t kMostComputed = uint64_t{2} << 30;

/// 0.1 of 0.1F.
double shortest_double(float value);

/// A tensor of a model under import.
struct Tensor {
  DType dtype = DType::kFloat32;
  Shape shape = {};
  int batch_axis = ops::kNoBatch;
  Reference reference = {};                      // none: a constant that no entry has read yet
  std::shared_ptr<const Array> value = nullptr;  // of a constant
  bool lost = false;                             // made by a node that cannot be imported
};

/// What the nodes of a model have in common.
struct ImportState {
  explicit ImportState(const fs::path& model) : external(model) {}

  JobWriter job;
  ops::JobTypes types;  // of the job's calls
  ExternalData external;
  int64_t opset = 0;
  std::set<std::string> needed = {};      // tensors that the outputs follow from, by name
  std::map<std::string, Tensor> tensors;  // by name in the model
  /// Entries of layers, by op and the model's names of their weights.
  std::map<std::vector<std::string>, size_t> layers = {};
  uint64_t computed = 0;  // bytes of constants that nodes computed from others
};

class NodeImport {
 public:
  /// `op`: of the node's rule.
  NodeImport(ImportState& state, const pb::NodeProto& node, std::string_view op)
      : state_(state), node_(node), op_(op) {}

  std::string_view type() const { return node_.op_type(); }
  std::string_view op() const { return op_; }
  int64_t opset() const { return state_.opset; }
  DType compute_dtype() const { return state_.types.compute; }
  int outputs() const { return node_.output_size(); }
  /// Has the model dimensions without a number? The batch may then be of any size.
  bool has_open_sizes() const { return !state_.job.sizes.empty(); }
  int inputs() const { return node_.input_size(); }
  bool has(int i) const { return i < node_.input_size() && !node_.input(i).empty(); }
  /// Does something read output i?
  bool is_read(int i) const {
    return i < node_.output_size() && !node_.output(i).empty() &&
           state_.needed.contains(node_.output(i));
  }
  /// Unsupported where there is none.
  const Tensor& in(int i) const;
  int rank() const { return in(0).shape.rank(); }
  bool is_float(int i = 0) const { return flow::is_float(in(i).dtype); }

  // Attributes. What is not taken is refused at the end.
  int64_t integer(std::string_view name, int64_t otherwise);
  /// A float32 as the double of its shortest decimal text.
  double number(std::string_view name, double otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  std::optional<std::vector<int64_t>> integers(std::string_view name);
  /// Null where there is none. Unsupported where it is of another type.
  const pb::AttributeProto* find(std::string_view name, pb::AttributeProto::AttributeType type);
  /// The tensor of an attribute; nothing where there is none.
  std::optional<Array> tensor(std::string_view name);
  /// An attribute that makes no difference here.
  void ignore(std::string_view name) { taken_.insert(std::string(name)); }
  /// Unsupported where there are others than those taken.
  void require_all_taken() const;

  /// The value of an operand that has to be known before a run.
  const Array& value(int i) const;
  std::vector<int64_t> values_as_int64(int i) const { return elements_as_int64(value(i)); }
  /// Is operand i integers or bools, few of them, that are known before a run?
  bool is_known(int i) const;
  bool all_known() const;
  /// Integers that were computed before the run, of operand 0's dtype.
  Tensor folded(const std::vector<int64_t>& values, Shape shape) const;
  /// A list that is an attribute in old opsets, and an operand in new ones.
  std::optional<std::vector<int64_t>> list(std::string_view name, int operand);
  /// An axis counted from the front. Unsupported where the tensor has no such axis.
  int axis(int64_t given, int of_rank) const;
  int axis(int64_t given) const { return axis(given, rank()); }

  /// Operand i as an entry reads it.
  Tensor operand(int i);
  /// The same, as a number where it is one and broadcasts to `other`.
  Tensor operand_or_number(int i, const Tensor& other);
  /// Operand i as indices of an axis of that extent. ONNX counts those below 0 from the end.
  Tensor indices(int i, int64_t extent);
  /// A scalar that an entry may have in the place of a tensor.
  static Tensor scalar(double value, DType dtype);

  /// Adds an entry, by the op's record; its first result. Attributes are all that the record lists.
  /// Unsupported where the op refuses its operands. An optional one that is not there has no
  /// reference.
  Tensor call(std::string_view op, const std::vector<Tensor>& operands,
              const ops::Attributes& attributes = {});
  /// Adds an entry of one value. REQUIRES: the shape is one of a tensor.
  Tensor fill(double value, const std::vector<int64_t>& extents, DType dtype);
  /// Its results. `count`: at least so many.
  std::vector<Tensor> calls(std::string_view op, const std::vector<Tensor>& operands,
                            const ops::Attributes& attributes, size_t count);
  /// Adds an entry of a layer, or another op without a shape function. `weights`: operands that are
  /// its variables, by name; what reads equal ones shares them.
  Tensor layer(std::string_view op, const std::vector<Tensor>& operands,
               const ops::Attributes& attributes, Shape shape, int batch_axis,
               std::map<std::string, Array> weights = {}, const std::vector<int>& weights_of = {});
  /// In another shape; a batch stays -1.
  Tensor reshape(const Tensor& x, const std::vector<int64_t>& shape);
  /// With its last axis at `axis`.
  Tensor with_last_at(const Tensor& x, int axis);
  /// What is known before a run. Unsupported where such constants of nodes become too large.
  Tensor constant(Array array) const;
  /// Unsupported where another constant of `bytes` would exceed kMostComputed.
  void require_computable(uint64_t bytes) const;
  /// Numbers at equal distances.
  Tensor range(double start, double stop, double step, DType dtype);
  /// A constant as an entry of that name.
  Tensor materialized(const Tensor& constant, const std::string& name);

 private:
  size_t add_entry(std::string_view op, const std::vector<Tensor>& operands,
                   const ops::Attributes& attributes);

  ImportState& state_;
  const pb::NodeProto& node_;
  std::string_view op_;
  std::set<std::string, std::less<>> taken_;
};

/// Adds an `einsum` of these operands. Unsupported where the equation is not one of theirs.
Tensor einsum(NodeImport& node, const std::vector<Tensor>& operands, const std::string& equation);

/// Makes entries of a node; its outputs.
using NodeReader = std::vector<Tensor> (*)(NodeImport& node);

struct ImportRule {
  std::string_view type;  // of ONNX
  NodeReader read;
  std::string_view op = {};  // of flow, where several operators have one reader
};

std::span<const ImportRule> arithmetic_imports();
std::span<const ImportRule> attention_imports();
std::span<const ImportRule> einsum_imports();
std::span<const ImportRule> image_imports();
std::span<const ImportRule> index_imports();
std::span<const ImportRule> layer_imports();
std::span<const ImportRule> loss_imports();
std::span<const ImportRule> normalization_imports();
std::span<const ImportRule> random_imports();
std::span<const ImportRule> recurrent_imports();
std::span<const ImportRule> shape_imports();

/// The rule for an operator; null where there is none.
const ImportRule* find_import(std::string_view type);

}  // namespace flow::onnx
