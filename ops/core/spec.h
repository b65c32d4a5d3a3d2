// The record of an op. One OpSpec contains everything that the compiler, the plan check, kernels,
// tests and documents know about the op.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/call.h"

namespace flow::ops {

/// The dtypes that an operand may have. kFloat means the float dtype in which the job computes; a
/// value of another dtype is cast first.
enum class Accepts { kAny, kFloat, kInteger, kBool, kNumber /* float or integer */ };

/// The role of an operand or a result in image layouts. Kernels prefer layouts with the channels
/// innermost.
enum class Images : uint8_t { kNone, kActivations /* [N, C, H, W] */, kFilters };

/// Returns the exclusive upper bound of the integers in an operand of labels or positions.
using LimitRule = int64_t (*)(std::span<const Shape> operands, const Attributes& attributes);

struct OperandSpec {
  std::string_view name;  // name in job files, such as "labels"; the main operand is called "in"
  std::string_view doc;
  Accepts accepts = Accepts::kFloat;
  bool variadic = false;  // a list of one or more values; only the last operand
  bool optional = false;  // only the last operand, unless OpSpec::optional_by_dtype is set
  /// The advice to users who pass a value of another dtype. If empty, the advice is a cast.
  std::string_view instead = {};
  /// In a mixed-precision job, passes may provide this operand in the job's 16-bit float dtype.
  bool low_precision = false;
  Images images = Images::kNone;
  LimitRule limit = nullptr;  // for labels and positions, which are in [0, limit)
  bool statistic = false;     // a variable in this operand is a moving average, not a parameter
  bool per_shard = false;     // each shard reads the value that it computed from its own rows
  bool layer_only = false;    // only the layer takes it, not the primitive of the same name
};

/// How the text of an attribute is read.
enum class AttributeType {
  kBool,
  kInteger,
  kNumber,
  kText /* one of `choices` */,
  kIntegers /* a list, or a single integer */,
  kIntegerOrList /* a single integer and a list differ in meaning */,
  kPairs /* [[0, 1], [2, 3]], stored as 0 1 2 3 */,
  kIndex /* NumPy's basic indexing: "[:, 0, 1:-1]" */,
  kEquation /* an einsum equation: "ij, jk -> ik" */,
  kDType,
  kPadding,
  kInitializer,
  kActivation,
  kRegularizer /* {l1, l2}; becomes the attributes NAME.l1 and NAME.l2 */
};

/// The kind of value of a normalized attribute, for the plan check.
enum class Kind {
  kFlag,
  kDType,
  kText,       // a text that is safe as a name
  kChoice,     // one of the attribute's choices
  kAxis,       // in [0, kMaxRank)
  kAxes,       // strictly increasing
  kCount,      // in [1, kMaxSize]
  kOffset,     // in [-kMaxSize, kMaxSize]
  kValue,      // any number, including NaN and infinities
  kFinite,     // a finite number
  kMagnitude,  // a finite number of at least 0
  kFraction,   // in [0, 1)
  kSizes,      // two counts: height and width
  kPads,       // four integers in [0, kMaxSize]: top, bottom, left, right
  kPairs,      // at most two integers per axis, each in [0, kMaxSize]
  kIntegers,   // at most one integer per axis
  kParts,      // one or more counts
  kShape,      // at most kMaxRank extents of at least 1, whose product does not overflow
  kUnplanned   // exists only in job files: `normalize` replaces it
};

/// An attribute as it appears in job files and passes.
struct AttributeSpec {
  std::string_view name;
  AttributeType type;
  /// The default value as a job file would write it; the attribute is required if this is empty.
  /// For lists, "[]", "all" and "reversed" mean the empty list. The name of an earlier attribute
  /// means that attribute's value. For an integer, "none" means that the attribute is absent.
  std::string_view fallback;
  std::string_view doc;
  std::vector<std::string_view> choices = {};
  std::optional<double> min = {}, max = {};  // inclusive bounds of each number
  std::optional<double> below = {};          // exclusive upper bound
  std::string_view instead = {};             // advice to users who wrote no number
  std::optional<Kind> kind = {};             // kind in plans, if type and bounds do not determine
                                             // it
};

/// An attribute as it appears in plans, shape functions and kernels, after OpSpec::normalize.
struct PlanAttribute {
  std::string_view name;
  Kind kind;
  bool of_result = false;   // extents of the first result, axis by axis
  bool of_operand = false;  // extents of the part of the first operand that is read, axis by axis
  bool optional = false;    // present only if the call needs it
};

struct ResultSpec {
  std::string_view name;
  bool optional = false;  // a plan may leave out the result if nothing reads it
  bool variadic =
      false;  // the shape function decides how many: out0, out1, ...; all but out0 are optional
  /// The operand, a variable, that this result overwrites.
  std::optional<size_t> updates = {};
  /// The operand, the updated value of a trained variable, that this result overwrites and
  /// replaces.
  std::optional<size_t> replaces = {};
  /// The operand, a statistic of a layer, whose next value this result is. If several calls move
  /// the same statistic, each call reads the result of the previous one, and the last result
  /// overwrites the statistic.
  std::optional<size_t> moves = {};
  Images images = Images::kNone;
};

/// The role of an op that another step's kernel can compute on its result before it is stored.
enum class Epilogue : uint8_t { kNone, kBias, kRelu, kCast, kUpdate };

/// The floating-point operations of a call, computed from shapes. A multiply-add counts as two.
/// Padding, masks and zeros are not subtracted.
struct Flops {
  enum class Each : uint8_t {
    kResult,
    kFirst /* operand */,
    kSecond,
    kOperands /* all operands */
  };
  /// Returns the operations of all results. Used by ops that cost as much as a matrix product.
  using Rule = double (*)(std::span<const Shape> operands, const Shape& result,
                          const Attributes& attributes);

  double operations = 1;  // number of operations per element of `each`
  Each each = Each::kResult;
  bool windows = false;  // multiplied by the number of elements in a window, `ksize`
  Rule product = nullptr;
};

/// An operand that contains positions in another tensor and that kernels read without a check. A
/// plan may pass only the second result of a matching call of `op` there.
struct Origin {
  size_t operand;
  std::string_view op;
  /// Returns true if the reader's attributes match those of a call of `op` whose first operand has
  /// the shape `maker_operand`.
  bool (*matches)(const Attributes& reader, const Attributes& maker,
                  const Shape& maker_operand) = nullptr;  // null: every call matches
  bool same_operand = false;  // the first operands of both calls must be the same tensor
  std::string_view expected;  // how messages describe the expected value: "the matching top_k"
};

/// The range from which tests draw float operands, so that results and gradients exist and vary.
enum class Domain : uint8_t {
  kUnit,      // [-1, 1]
  kWide,      // [-8, 8]: for functions that bend beyond 1
  kPositive,  // [0.1, 1.1]: for functions that are undefined or steep at 0
  kInside,    // [-0.9, 0.9]: for functions that are steep at -1 and 1
  kAboveOne,  // [1.1, 2.1]: for functions that are undefined below 1
};

/// Replaces attributes as job files write them by their normalized form: a negative axis by the
/// axis that it means, `same` by four pads. Reports values that cannot be normalized. `attributes`
/// is the object that the call borrows.
using NormalizeRule = void (*)(Call& call, Attributes& attributes);
/// Adds the results, or reports why it cannot. It can rely on normalized attributes of the right
/// kinds, and on operands whose number and dtypes agree with the record, but on nothing else.
using InferRule = void (*)(Call& call);
/// Returns true if a mixed-precision job may round the operands to 16 bits instead of the result
/// without changing the result.
using RoundsRule = bool (*)(const Attributes& attributes);

/// An op: a primitive, which kernels compute, or a layer (without `infer`), which expands to
/// primitives.
struct OpSpec {
  std::string_view name;
  std::string_view doc;      // one sentence
  std::string_view formula;  // "y = max(x, 0)"
  std::vector<OperandSpec> operands;
  std::vector<AttributeSpec> attributes = {};
  /// The attributes of the primitive in a plan. A plan has exactly these, and may omit the optional
  /// ones. Records list only those that differ from `attributes`; the others are derived from
  /// `attributes`.
  std::vector<PlanAttribute> plan_attributes = {};
  /// The results. The first is the value of an entry in a job file; the others are the entry's
  /// ports.
  std::vector<ResultSpec> results = {{"out"}};
  NormalizeRule normalize = nullptr;
  InferRule infer = nullptr;
  /// The operands whose memory the first result may reuse.
  std::vector<size_t> in_place = {};

  bool takes_variables = false;   // the entry may contain `trainable` and `variables`
  bool trains_otherwise = false;  // differs in training; the entry may contain `training`
  /// A call may omit any of the optional operands. The dtypes of the operands that are present show
  /// which they are.
  bool optional_by_dtype = false;
  bool secondary_gradients =
      false;  // the gradient rule uses gradients of all results, not only of the first
  bool elementwise = false;  // element i of the first result depends on element i of operand 0
  bool dropped = false;      // a pass removes the op, so plans cannot name it
  bool view = false;  // the first result is operand 0 in another shape and may share its memory
  bool between_devices = false;  // the operand is on another device than the result
  bool product = false;          // mixed-precision jobs round the first two operands to 16 bits
  bool for_updates = false;      // used only to compute updates of variables
  /// The random numbers depend on the second operand, a position, and on the pass of a loop only if
  /// `by_pass` is set.
  bool draws_by_position = false;
  /// The operands in which the op is linear if the others are fixed. Applying the op to each part
  /// of a sum gives the parts of its result.
  std::vector<size_t> linear = {};
  bool linear_in_all = false;  // the op is linear in all operands together
  /// Each element of a result is an element of one of the operands in which the op is linear.
  /// Applying the op to each part of a maximum or minimum therefore gives the parts of its result,
  /// as for sums.
  bool moves_elements = false;
  RoundsRule rounds_operands = nullptr;
  Epilogue epilogue = Epilogue::kNone;
  Epilogue gradient_of = Epilogue::kNone;  // the epilogue whose gradient this op is
  /// The epilogues that kernels can take: only kUpdate, or any subset of the others in this order.
  std::vector<Epilogue> takes = {};
  int bias_axis = 0;  // axis of a kBias epilogue; negative: counted from the end
  std::optional<Origin> origin = {};
  std::string_view layer = {};  // name of the layer whose main op this is: "dense"
  Flops flops = {};
  bool internal = false;  // only passes make it; job files cannot name it
  Domain domain = Domain::kUnit;
  /// A NumPy expression for the first result in terms of the names of operands and attributes, with
  /// `in` called x: "np.maximum(x, 0)". If it is empty, tests/property/numpy_judge.py has a
  /// function for the op.
  std::string_view numpy = {};
  /// Small calls for the property tests: "matmul(f32[3,4], f32[4,2]) transpose_b=false".
  std::vector<std::string_view> examples = {};

  /// Returns the attribute of that name, or null.
  const AttributeSpec* attribute(std::string_view attribute_name) const;
  /// Returns the record of operand i. REQUIRES: the call has this operand.
  const OperandSpec& operand(size_t i) const;
  /// Returns the record of operand i, which has that dtype. In some ops the dtype distinguishes the
  /// optional operands.
  const OperandSpec& operand(size_t i, DType dtype) const;
  /// Returns the record of result i.
  const ResultSpec& result(size_t i) const;
  /// Returns the port name of result i: "mask", "out1".
  std::string result_name(size_t i) const;
  /// Returns true if a plan may leave out result i when nothing reads it.
  bool may_be_absent(size_t i) const;
  /// Returns true if result 0 may reuse the memory of operand i.
  bool may_overwrite(size_t i) const;
  /// Returns true if kernels can take that epilogue.
  bool can_take(Epilogue other) const;
  /// Returns true for a convolution or the gradient of one.
  bool convolves() const;
  /// Returns true if results replace statistics of a layer (see ResultSpec::moves).
  bool moves_statistics() const { return !results.empty() && results[0].moves; }
  /// Returns true if the op runs once on values of the whole batch, even if the batch is split into
  /// shards.
  bool runs_once() const;
};

/// A RoundsRule for ops that only move elements.
bool rounds_always(const Attributes& attributes);

/// Returns all records, family by family in the order of families.def.
std::span<const OpSpec* const> all_specs();
/// Returns the record of that name, or null.
const OpSpec* find_spec(std::string_view name);

/// Returns the records that a job file may name.
std::vector<const OpSpec*> written_specs();
/// Returns the record of that name if a job file may name it, or null.
const OpSpec* find_written_spec(std::string_view name);

}  // namespace flow::ops
