// A node of a model, with the functions that make entries of it.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/onnx/job_writer.h"
#include "runtime/onnx/proto.h"
#include "runtime/onnx/sizes.h"

namespace flow::onnx {

/// The most elements of a value that is computed before a run.
inline constexpr int64_t kMostFolded = 4096;

/// A number above all indices.
inline constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

/// The most elements of a constant that are followed one by one. A larger constant is followed as a
/// whole.
inline constexpr int64_t kMostFollowed = 64;

/// The most bytes of all constants that nodes compute from other constants.
inline constexpr uint64_t kMostComputed = uint64_t{2} << 30;

/// Returns the double with the shortest decimal text of a float: 0.1 for 0.1F.
double shortest_double(float value);

/// A tensor of a model during the import.
struct Tensor {
  DType dtype = DType::kFloat32;
  Shape shape = {};
  int batch_axis = ops::kNoBatch;
  Reference reference = {};                      // none: a constant that no entry has read yet
  std::shared_ptr<const Array> value = nullptr;  // set for a constant
  bool lost = false;                             // made by a node that cannot be imported
  // The following members depend on sizes of dimensions. A constant has its value at the import.
  Sizes sizes = {};  // indexed by axis; empty if the shape depends on no size
  // The elements of a constant; empty if they are not followed one by one.
  Sizes elements = {};
  std::set<std::string> follows = {};  // variables on which a constant as a whole depends

  /// Returns the extent of an axis.
  Size size(int axis) const {
    return sizes.empty() ? fixed(shape[axis]) : sizes[static_cast<size_t>(axis)];
  }
  Sizes all_sizes() const { return sizes.empty() ? fixed(shape.extents()) : sizes; }
  /// Returns true if the value depends on sizes.
  bool is_followed() const { return !elements.empty() || !follows.empty() || !sizes.empty(); }
};

using Tensors = std::vector<Tensor>;

/// The state that all nodes of a model share.
struct ImportState {
  explicit ImportState(const fs::path& model) : external(model) {}

  JobWriter job;
  ops::JobTypes types;  // types of the job's calls
  ExternalData external;
  int64_t opset = 0;
  std::set<std::string> needed = {};      // names of the tensors on which the outputs depend
  std::map<std::string, Tensor> tensors;  // indexed by name in the model
  /// The entries of layers, indexed by the op and the names of their weights in the model.
  std::map<std::vector<std::string>, size_t> layers = {};
  uint64_t computed = 0;  // bytes of constants that nodes computed from other constants
  Size batch = {};        // number of rows of the batch
  std::vector<std::set<std::string>> probes = {};  // variables that each probe changes
};

class NodeImport {
 public:
  /// `op` is that of the node's rule.
  NodeImport(ImportState& state, const pb::NodeProto& node, std::string_view op)
      : state_(state), node_(node), op_(op) {}

  std::string_view type() const { return node_.op_type(); }
  std::string_view op() const { return op_; }
  int64_t opset() const { return state_.opset; }
  DType compute_dtype() const { return state_.types.compute; }
  int outputs() const { return node_.output_size(); }
  /// Returns true if the model has dimensions without a number. In this case the batch may have any
  /// size.
  bool has_open_sizes() const { return !state_.job.sizes.empty(); }
  int inputs() const { return node_.input_size(); }
  bool has(int i) const { return i < node_.input_size() && !node_.input(i).empty(); }
  /// Returns true if any node or output reads output i.
  bool is_read(int i) const {
    return i < node_.output_size() && !node_.output(i).empty() &&
           state_.needed.contains(node_.output(i));
  }
  /// Returns operand i. Throws Unsupported if it is missing.
  const Tensor& in(int i) const;
  int rank() const { return in(0).shape.rank(); }
  bool is_float(int i = 0) const { return flow::is_float(in(i).dtype); }

  // The following functions read attributes. Attributes that no function has read are rejected at
  // the end.
  int64_t integer(std::string_view name, int64_t otherwise);
  /// Returns a float32 attribute as the double with its shortest decimal text.
  double number(std::string_view name, double otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  std::optional<std::vector<int64_t>> integers(std::string_view name);
  /// Returns an attribute, or null if it is missing. Throws Unsupported if it has another type.
  const pb::AttributeProto* find(std::string_view name, pb::AttributeProto::AttributeType type);
  /// Returns the tensor of an attribute, or nothing if it is missing.
  std::optional<Array> tensor(std::string_view name);
  /// Accepts an attribute that does not affect the result.
  void ignore(std::string_view name) { taken_.insert(std::string(name)); }
  /// Throws Unsupported if the node has attributes that were not read.
  void require_all_taken() const;

  /// Returns the value of an operand that has to be known before a run. Pins the variables on which
  /// it depends.
  const Array& value(int i) const;
  std::vector<int64_t> values_as_int64(int i) const { return elements_as_int64(value(i)); }
  /// Returns the value without pinning its variables, for readers that keep its dependence on
  /// sizes.
  const Array& followed_value(int i) const;
  /// Returns the integers or bools of an operand whose value has to be known before a run.
  Sizes elements(int i) const;
  /// Returns true if operand i consists of a few integers or bools that are known before a run.
  bool is_known(int i) const;
  /// Returns a constant that was computed before the run.
  Tensor known(const Sizes& elements, Shape shape, DType dtype) const;
  /// Returns a list that is an attribute in old opsets and an operand in new ones.
  std::optional<std::vector<int64_t>> list(std::string_view name, int operand);
  std::optional<Sizes> sizes(std::string_view name, int operand);

  /// Marks the results of the node as valid only for the current values of these variables.
  void pin_variables(const std::set<std::string>& variables) const {
    pins_.insert(variables.begin(), variables.end());
  }
  void pin(const Sizes& sizes) const { add_variables(pins_, sizes); }
  /// Pins the shapes of all operands, for entries with numbers that the reader computes from these
  /// shapes.
  void pin_shapes() const {
    for (int i = 0; i < inputs(); ++i)
      if (has(i)) pin(in(i).sizes);
  }
  const std::set<std::string>& pins() const { return pins_; }
  /// Returns a number that depends on variables in an unknown way.
  Size unknown(int64_t value, const std::set<std::string>& variables) const;
  /// Returns the size of an axis to which both sizes broadcast.
  Size broadcast(const Size& a, const Size& b) const;
  /// Returns the text of a number or an expression. A size without an expression is pinned.
  std::string text(const Size& size) const;
  /// Returns the same text in the form for use inside a longer text.
  std::string part_text(const Size& size) const;
  /// Adds the attribute as text if it depends on sizes.
  void add_text(Texts& texts, std::string_view name, const Sizes& sizes) const;
  /// Returns the axis counted from the front. Throws Unsupported if the tensor has no such axis.
  int axis(int64_t given, int of_rank) const;
  int axis(int64_t given) const { return axis(given, rank()); }

  /// Returns operand i as an entry reads it.
  Tensor operand(int i);
  /// Returns operand i, as a number if it is one and broadcasts to `other`.
  Tensor operand_or_number(int i, const Tensor& other);
  /// Returns operand i as indices of an axis with this extent. ONNX counts negative indices from
  /// the end.
  Tensor indices(int i, const Size& extent);
  /// Returns a scalar that an entry may use instead of a tensor.
  static Tensor scalar(double value, DType dtype);
  Tensor scalar(const Size& size, DType dtype) const;

  /// Adds an entry according to the op's record, and returns its first result. The attributes must
  /// be among those that the record lists. Throws Unsupported if the op rejects its operands. An
  /// optional operand that is missing has no reference.
  Tensor call(std::string_view op, const std::vector<Tensor>& operands,
              const ops::Attributes& attributes = {}, const Texts& texts = {});
  /// Adds an entry of a tensor and a number of its dtype.
  Tensor call(std::string_view op, const Tensor& a, double b) {
    return call(op, {a, scalar(b, a.dtype)});
  }
  /// Casts to a dtype. Returns the tensor itself if it already has this dtype.
  Tensor cast(const Tensor& x, DType to) {
    return x.dtype == to ? x : call("cast", {x}, {{"dtype", to}});
  }
  /// Adds an entry in which all elements have one value. REQUIRES: the shape is valid for a tensor.
  Tensor fill(double value, const Sizes& extents, DType dtype);
  /// Adds an entry and returns its results, of which there are at least `count`.
  std::vector<Tensor> calls(std::string_view op, const std::vector<Tensor>& operands,
                            const ops::Attributes& attributes, size_t count,
                            const Texts& texts = {});
  /// Adds an entry of a layer, or of another op without a shape function. `weights` are the
  /// operands that become its variables, indexed by name. Layers with equal weights share them.
  Tensor layer(std::string_view op, const std::vector<Tensor>& operands,
               const ops::Attributes& attributes, Shape shape, int batch_axis,
               std::map<std::string, Array> weights = {}, const std::vector<int>& weights_of = {});
  /// Writes an attribute of the last entry as text if it depends on sizes.
  void write(std::string_view attribute, const Size& size);
  /// Reshapes a tensor. One size may be -1, and a batch stays -1.
  Tensor reshape(const Tensor& x, const Sizes& shape);
  /// Reshapes to numbers, which are only valid for the current sizes of x.
  Tensor reshape(const Tensor& x, const std::vector<int64_t>& shape) {
    pin(x.sizes);
    return reshape(x, fixed(shape));
  }
  /// Repeats a tensor along each axis. Returns the tensor itself if all copies are 1.
  Tensor tile(const Tensor& x, const Sizes& copies);
  /// Moves the last axis to `axis`.
  Tensor with_last_at(const Tensor& x, int axis);
  /// Returns a value that is known before a run. Throws Unsupported if the computed constants
  /// become too large.
  Tensor constant(Array array) const;
  /// Throws Unsupported if another constant of `bytes` bytes would exceed kMostComputed.
  void require_computable(uint64_t bytes) const;
  /// Returns evenly spaced numbers.
  Tensor range(double start, double stop, double step, DType dtype);
  Tensor range(const Size& start, const Size& stop, const Size& step, DType dtype);
  /// Adds an entry with this name for a constant.
  Tensor materialized(const Tensor& constant, const std::string& name);

 private:
  size_t add_entry(std::string_view op, const std::vector<Tensor>& operands,
                   const ops::Attributes& attributes, const Texts& texts = {});
  /// Adds an entry for a vector or a number whose elements depend on sizes.
  Tensor materialized_elements(const Tensor& constant);
  /// Returns the sizes of the result of a layer. If nothing more is known, each size depends on all
  /// sizes of its operands.
  Sizes sizes_of_layer(std::string_view op, const std::vector<Tensor>& operands,
                       const Shape& shape) const;
  /// Computes the sizes of results at each probe, and the variables on which they depend.
  void follow(const ops::OpSpec& spec, const std::vector<Tensor>& operands,
              const ops::Attributes& attributes, std::vector<Tensor>& results) const;

  ImportState& state_;
  const pb::NodeProto& node_;
  std::string_view op_;
  std::set<std::string, std::less<>> taken_;
  mutable std::set<std::string> pins_;
};

/// Adds an `einsum` of these operands. Throws Unsupported if the equation does not match them.
Tensor einsum(NodeImport& node, const std::vector<Tensor>& operands, const std::string& equation);

/// Returns (N, H, T, D). An operand with three axes, (N, T, H D), is split into `count` heads.
Tensor as_heads(NodeImport& node, const Tensor& x, int64_t count);
/// Undoes as_heads() for an operand with three axes.
Tensor as_rows(NodeImport& node, const Tensor& x);

/// Returns the elements of a range with NumPy's rules. REQUIRES: the step is not 0.
std::vector<int64_t> taken(const std::vector<int64_t>& values, int64_t start, int64_t end,
                           int64_t step);

}  // namespace flow::onnx
