// One node of a model, as the functions see it that make entries of it.
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

/// What is computed before a run has no more elements.
inline constexpr int64_t kMostFolded = 4096;

/// Beyond all indices.
inline constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

/// A constant of more elements is followed as a whole.
inline constexpr int64_t kMostFollowed = 64;

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
  // What follows from sizes of dimensions. A constant has the value of the import.
  Sizes sizes = {};                    // by axis; empty where the shape follows from none
  Sizes elements = {};                 // of a constant; empty where they are not known singly
  std::set<std::string> follows = {};  // variables that a constant as a whole follows from

  /// How far it reaches along an axis.
  Size size(int axis) const {
    return sizes.empty() ? fixed(shape[axis]) : sizes[static_cast<size_t>(axis)];
  }
  Sizes all_sizes() const { return sizes.empty() ? fixed(shape.extents()) : sizes; }
  /// Does its value follow from sizes?
  bool is_followed() const { return !elements.empty() || !follows.empty() || !sizes.empty(); }
};

using Tensors = std::vector<Tensor>;

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
  Size batch = {};        // the rows of the batch
  std::vector<std::set<std::string>> probes = {};  // the variables that each probe changes
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

  /// The value of an operand that has to be known before a run. Pins what it follows from.
  const Array& value(int i) const;
  std::vector<int64_t> values_as_int64(int i) const { return elements_as_int64(value(i)); }
  /// The value as it follows from sizes, which a reader carries on.
  const Array& followed_value(int i) const;
  /// Integers or bools of an operand that has to be known before a run.
  Sizes elements(int i) const;
  /// Is operand i integers or bools, few of them, that are known before a run?
  bool is_known(int i) const;
  /// A constant that was computed before the run.
  Tensor known(const Sizes& elements, Shape shape, DType dtype) const;
  /// A list that is an attribute in old opsets, and an operand in new ones.
  std::optional<std::vector<int64_t>> list(std::string_view name, int operand);
  std::optional<Sizes> sizes(std::string_view name, int operand);

  /// Marks what the node makes as right for the values of these variables alone.
  void pin_variables(const std::set<std::string>& variables) const {
    pins_.insert(variables.begin(), variables.end());
  }
  void pin(const Sizes& sizes) const { add_variables(pins_, sizes); }
  /// Where entries have numbers that the reader computes from the shapes of operands.
  void pin_shapes() const {
    for (int i = 0; i < inputs(); ++i)
      if (has(i)) pin(in(i).sizes);
  }
  const std::set<std::string>& pins() const { return pins_; }
  /// A number that follows from variables, of which no more is known.
  Size unknown(int64_t value, const std::set<std::string>& variables) const;
  /// The size of an axis to which both broadcast.
  Size broadcast(const Size& a, const Size& b) const;
  /// A number or an expression; one that has none is pinned.
  std::string text(const Size& size) const;
  /// The same inside of text.
  std::string part_text(const Size& size) const;
  /// The attribute as text, where it follows from sizes.
  void add_text(Texts& texts, std::string_view name, const Sizes& sizes) const;
  /// An axis counted from the front. Unsupported where the tensor has no such axis.
  int axis(int64_t given, int of_rank) const;
  int axis(int64_t given) const { return axis(given, rank()); }

  /// Operand i as an entry reads it.
  Tensor operand(int i);
  /// The same, as a number where it is one and broadcasts to `other`.
  Tensor operand_or_number(int i, const Tensor& other);
  /// Operand i as indices of an axis of that extent. ONNX counts those below 0 from the end.
  Tensor indices(int i, const Size& extent);
  /// A scalar that an entry may have in the place of a tensor.
  static Tensor scalar(double value, DType dtype);
  Tensor scalar(const Size& size, DType dtype) const;

  /// Adds an entry, by the op's record; its first result. Attributes are all that the record lists.
  /// Unsupported where the op refuses its operands. An optional one that is not there has no
  /// reference.
  Tensor call(std::string_view op, const std::vector<Tensor>& operands,
              const ops::Attributes& attributes = {}, const Texts& texts = {});
  /// The same of a tensor and a number of its dtype.
  Tensor call(std::string_view op, const Tensor& a, double b) {
    return call(op, {a, scalar(b, a.dtype)});
  }
  /// In that dtype; the tensor itself where it has it.
  Tensor cast(const Tensor& x, DType to) {
    return x.dtype == to ? x : call("cast", {x}, {{"dtype", to}});
  }
  /// Adds an entry of one value. REQUIRES: the shape is one of a tensor.
  Tensor fill(double value, const Sizes& extents, DType dtype);
  /// Its results. `count`: at least so many.
  std::vector<Tensor> calls(std::string_view op, const std::vector<Tensor>& operands,
                            const ops::Attributes& attributes, size_t count,
                            const Texts& texts = {});
  /// Adds an entry of a layer, or another op without a shape function. `weights`: operands that are
  /// its variables, by name; what reads equal ones shares them.
  Tensor layer(std::string_view op, const std::vector<Tensor>& operands,
               const ops::Attributes& attributes, Shape shape, int batch_axis,
               std::map<std::string, Array> weights = {}, const std::vector<int>& weights_of = {});
  /// Writes an attribute of the last entry, where it follows from sizes.
  void write(std::string_view attribute, const Size& size);
  /// In another shape, of which one size may be -1; a batch stays -1.
  Tensor reshape(const Tensor& x, const Sizes& shape);
  /// The same of numbers, which are right for these sizes of x alone.
  Tensor reshape(const Tensor& x, const std::vector<int64_t>& shape) {
    pin(x.sizes);
    return reshape(x, fixed(shape));
  }
  /// Copies along each axis; where all are 1, the tensor itself.
  Tensor tile(const Tensor& x, const Sizes& copies);
  /// With its last axis at `axis`.
  Tensor with_last_at(const Tensor& x, int axis);
  /// What is known before a run. Unsupported where such constants of nodes become too large.
  Tensor constant(Array array) const;
  /// Unsupported where another constant of `bytes` would exceed kMostComputed.
  void require_computable(uint64_t bytes) const;
  /// Numbers at equal distances.
  Tensor range(double start, double stop, double step, DType dtype);
  Tensor range(const Size& start, const Size& stop, const Size& step, DType dtype);
  /// A constant as an entry of that name.
  Tensor materialized(const Tensor& constant, const std::string& name);

 private:
  size_t add_entry(std::string_view op, const std::vector<Tensor>& operands,
                   const ops::Attributes& attributes, const Texts& texts = {});
  /// A vector or a number whose elements follow from sizes.
  Tensor materialized_elements(const Tensor& constant);
  /// Sizes of the result of a layer. Each follows from all of its operands, where no more is known.
  Sizes sizes_of_layer(std::string_view op, const std::vector<Tensor>& operands,
                       const Shape& shape) const;
  /// Finds the sizes of results at each probe, and what they follow from.
  void follow(const ops::OpSpec& spec, const std::vector<Tensor>& operands,
              const ops::Attributes& attributes, std::vector<Tensor>& results) const;

  ImportState& state_;
  const pb::NodeProto& node_;
  std::string_view op_;
  std::set<std::string, std::less<>> taken_;
  mutable std::set<std::string> pins_;
};

/// Adds an `einsum` of these operands. Unsupported where the equation is not one of theirs.
Tensor einsum(NodeImport& node, const std::vector<Tensor>& operands, const std::string& equation);

/// (N, H, T, D). An operand of three axes, (N, T, H D), has `count` heads.
Tensor as_heads(NodeImport& node, const Tensor& x, int64_t count);
/// The opposite of as_heads, for an operand of three axes.
Tensor as_rows(NodeImport& node, const Tensor& x);

/// The elements of a range, as NumPy takes them. REQUIRES: the step is not 0.
std::vector<int64_t> taken(const std::vector<int64_t>& values, int64_t start, int64_t end,
                           int64_t step);

}  // namespace flow::onnx
