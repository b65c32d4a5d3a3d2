// The record of an op: everything that compiler, plan check, kernels, tests and documents know of
// it stands in one OpSpec.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/call.h"

namespace flow::ops {

/// Dtypes that an operand may have. Floats are those that the job computes in; others are cast
/// before anything is computed from them.
enum class Accepts { kAny, kFloat, kInteger, kBool, kNumber /* float or integer */ };

/// What an operand or a result is to layouts of images, where kernels prefer channels innermost.
enum class Images : uint8_t { kNone, kActivations /* [N, C, H, W] */, kFilters };

/// One past the largest integer that an operand of labels or places may hold.
using LimitRule = int64_t (*)(std::span<const Shape> operands, const Attributes& attributes);

struct OperandSpec {
  std::string_view name;  // as job files write it: "labels"; the main one is "in"
  std::string_view doc;
  Accepts accepts = Accepts::kFloat;
  bool variadic = false;  // a list of one or more, the last operand
  bool optional = false;  // the last operand; several: see OpSpec::optional_by_dtype
  /// What to do with a value of another dtype; a cast where empty.
  std::string_view instead = {};
  /// In a mixed job, passes may give it in the job's 16-bit float dtype.
  bool low_precision = false;
  Images images = Images::kNone;
  LimitRule limit = nullptr;  // of labels and places, which lie in [0, limit)
  bool statistic = false;     // a variable there has moving averages: it is not a parameter
  bool per_shard = false;     // each shard reads there what it computed from its own rows
  bool layer_only = false;    // of an op that is a layer and a primitive: the layer alone takes it
};

/// How an attribute's text is read.
enum class AttributeType {
  kBool,
  kInteger,
  kNumber,
  kText /* one of `choices` */,
  kIntegers /* a list, or one */,
  kIntegerOrList /* which of them matters */,
  kPairs /* [[0, 1], [2, 3]], kept as 0 1 2 3 */,
  kIndex /* NumPy's basic indexing: "[:, 0, 1:-1]" */,
  kEquation /* of einsum: "ij, jk -> ik" */,
  kDType,
  kPadding,
  kInitializer,
  kActivation,
  kRegularizer /* {l1, l2}: attributes NAME.l1 and NAME.l2 */
};

/// What a normalized attribute holds, for the plan check.
enum class Kind {
  kFlag,
  kDType,
  kText,       // that is safe as a name
  kChoice,     // a text among the attribute's choices
  kAxis,       // in [0, kMaxRank)
  kAxes,       // strictly increasing
  kCount,      // in [1, kMaxSize]
  kOffset,     // in [-kMaxSize, kMaxSize]
  kValue,      // any number, NaN and infinities too
  kFinite,     // a finite number
  kMagnitude,  // a finite number of at least 0
  kFraction,   // in [0, 1)
  kSizes,      // two counts: height and width
  kPads,       // four in [0, kMaxSize]: top, bottom, left, right
  kPairs,      // up to two an axis in [0, kMaxSize]
  kIntegers,   // up to one an axis
  kParts,      // counts, at least one
  kShape,      // extents of at least 1, up to kMaxRank, that can be counted
  kUnplanned   // job files alone have it: `normalize` replaces it
};

/// An attribute as job files and passes write it.
struct AttributeSpec {
  std::string_view name;
  AttributeType type;
  /// As a job file would write it; empty: required. Lists "[]", "all" and "reversed" mean the empty
  /// list. The name of an attribute further up takes over its value. An integer "none" is absent.
  std::string_view fallback;
  std::string_view doc;
  std::vector<std::string_view> choices = {};
  std::optional<double> min = {}, max = {};  // both included, of each number
  std::optional<double> below = {};          // excluded
  std::string_view instead = {};             // what to do where a number is wanted, and none stands
  std::optional<Kind> kind = {};             // in plans, where type and bounds do not tell
};

/// An attribute as plans, shape functions and kernels have it, after OpSpec::normalize.
struct PlanAttribute {
  std::string_view name;
  Kind kind;
  bool of_result = false;   // extents of the first result, axis by axis
  bool of_operand = false;  // extents of what is read of the first operand, axis by axis
  bool optional = false;    // only where it is needed
};

struct ResultSpec {
  std::string_view name;
  bool optional = false;  // a plan may leave it out where nobody reads it
  bool variadic =
      false;  // as many as the shape function makes: out0, out1, ...; all but the first optional
  /// The operand, a variable, that this result is written onto.
  std::optional<size_t> updates = {};
  /// The operand, the updated value of a trained variable, that this result is written onto and
  /// replaces.
  std::optional<size_t> replaces = {};
  /// The operand, a statistic of a layer, that this result is the next value of. Of several calls
  /// that move the same one, each reads what the one before made, and the last is written onto it.
  std::optional<size_t> moves = {};
  Images images = Images::kNone;
};

/// What an op is when its kernel computes it as part of the step before, on the result's way out.
enum class Epilogue : uint8_t { kNone, kBias, kRelu, kCast, kUpdate };

/// Floating-point operations of a call, from shapes. A multiplication with its addition counts as
/// two. Padding, masks and zeros are not subtracted.
struct Flops {
  enum class Each : uint8_t { kResult, kFirst /* operand */, kSecond, kOperands /* all */ };
  /// Operations of all results; of ops that cost what a product costs.
  using Rule = double (*)(std::span<const Shape> operands, const Shape& result,
                          const Attributes& attributes);

  double operations = 1;  // for each element of:
  Each each = Each::kResult;
  bool windows = false;  // times the elements of a window, `ksize`
  Rule product = nullptr;
};

/// An operand with places in another tensor, which kernels trust. A plan may only pass the second
/// result of `op` there, of a call that matches.
struct Origin {
  size_t operand;
  std::string_view op;
  /// Does the call match one of `op` whose first operand has that shape?
  bool (*matches)(const Attributes& reader, const Attributes& maker,
                  const Shape& maker_operand) = nullptr;  // null: it always does
  bool same_operand = false;  // their first operands must be the same tensor
  std::string_view expected;  // "the matching top_k"
};

/// Which numbers tests draw for float operands, so that results and gradients exist and are not all
/// alike.
enum class Domain : uint8_t {
  kUnit,      // [-1, 1]
  kWide,      // [-8, 8]: functions that bend beyond 1
  kPositive,  // [0.1, 1.1]: functions undefined or steep at 0
  kInside,    // [-0.9, 0.9]: functions steep at -1 and 1
  kAboveOne,  // [1.1, 2.1]: functions undefined below 1
};

/// Replaces attributes as job files write them by their normalized form: a negative axis by the one
/// it means, `same` by four pads. Reports what cannot be. `attributes` are those that the call
/// borrows.
using NormalizeRule = void (*)(Call& call, Attributes& attributes);
/// Makes the results, or reports why there are none. Attributes are normalized and of their kinds,
/// operands as many and of the dtypes that the record says; nothing else can be relied on.
using InferRule = void (*)(Call& call);
/// In a mixed job, may operands be rounded to 16 bits instead of the result, with the same bits?
using RoundsRule = bool (*)(const Attributes& attributes);

/// An op: a primitive, which kernels compute, or a layer (without `infer`), which expands to
/// primitives.
struct OpSpec {
  std::string_view name;
  std::string_view doc;      // one sentence
  std::string_view formula;  // "y = max(x, 0)"
  std::vector<OperandSpec> operands;
  std::vector<AttributeSpec> attributes = {};
  /// Those of the primitive in a plan: exactly these, optional ones perhaps. Records list what
  /// differs from `attributes`, from which all others follow.
  std::vector<PlanAttribute> plan_attributes = {};
  /// The first is what an entry stands for, others are its ports.
  std::vector<ResultSpec> results = {{"out"}};
  NormalizeRule normalize = nullptr;
  InferRule infer = nullptr;
  /// Operands whose memory the first result may reuse.
  std::vector<size_t> in_place = {};

  bool takes_variables = false;   // its entry may say `trainable` and `variables`
  bool trains_otherwise = false;  // than it predicts; its entry may say `training`
  /// A call may leave out any of the optional operands: the dtypes of the others tell which it has.
  bool optional_by_dtype = false;
  bool secondary_gradients =
      false;  // the gradient rule takes gradients of any result, not of the first alone
  bool elementwise = false;  // element i of the first result comes from element i of operand 0
  bool dropped = false;      // by a pass: plans cannot name it
  bool view = false;  // the first result is operand 0 in another shape, and may share its memory
  bool between_devices = false;  // its operand lies on another device than its result
  bool product = false;          // mixed jobs round its first two operands to 16 bits
  bool for_updates = false;      // computed for updates of variables alone
  /// What it draws depends on its second operand, a position, and not on the pass of a loop unless
  /// `by_pass` says so.
  bool draws_by_position = false;
  /// Operands in each of which the op is linear, the others given: what it makes of the parts of a
  /// sum are the parts of what it makes of the sum.
  std::vector<size_t> linear = {};
  bool linear_in_all = false;  // it is linear in all operands together
  /// Elements of results are elements of the operands in which it is linear: what it makes of the
  /// parts of a maximum or minimum are the parts of what it makes of that, too.
  bool moves_elements = false;
  RoundsRule rounds_operands = nullptr;
  Epilogue epilogue = Epilogue::kNone;
  Epilogue gradient_of = Epilogue::kNone;  // it is the gradient of that epilogue
  /// Epilogues that kernels take: kUpdate alone, or the others in this order, any of them absent.
  std::vector<Epilogue> takes = {};
  int bias_axis = 0;  // of an epilogue kBias; below 0: counted from the end
  std::optional<Origin> origin = {};
  std::string_view layer = {};  // whose main op it is: "dense"
  Flops flops = {};
  bool internal = false;  // made by passes; job files cannot name it
  Domain domain = Domain::kUnit;
  /// The first result as a NumPy expression of operands and attributes, by their names, in which
  /// `in` is called x: "np.maximum(x, 0)". Empty: a function of tests/property/numpy_judge.py.
  std::string_view numpy = {};
  /// Small calls for the property tests: "matmul(f32[3,4], f32[4,2]) transpose_b=false".
  std::vector<std::string_view> examples = {};

  /// The attribute of that name, or null.
  const AttributeSpec* attribute(std::string_view attribute_name) const;
  /// What the record says of operand i. REQUIRES: the call has that many.
  const OperandSpec& operand(size_t i) const;
  /// The same of operand i of that dtype, which tells optional ones apart in some ops.
  const OperandSpec& operand(size_t i, DType dtype) const;
  /// The same of result i.
  const ResultSpec& result(size_t i) const;
  /// The name of result i as a port: "mask", "out1".
  std::string result_name(size_t i) const;
  /// May a plan leave result i out, because nobody reads it?
  bool may_be_absent(size_t i) const;
  /// May result 0 lie where operand i lies?
  bool may_overwrite(size_t i) const;
  /// Do kernels take that epilogue?
  bool can_take(Epilogue other) const;
  /// Is it a convolution, or the gradient of one?
  bool convolves() const;
  /// Do results replace statistics of a layer (see ResultSpec::moves)?
  bool moves_statistics() const { return !results.empty() && results[0].moves; }
  /// Does it run once where the batch is cut into shards, on values of the whole batch?
  bool runs_once() const;
};

/// A RoundsRule of ops that only move elements.
bool rounds_always(const Attributes& attributes);

/// All records, family by family in the order of families.def.
std::span<const OpSpec* const> all_specs();
/// The record of that name, or null.
const OpSpec* find_spec(std::string_view name);

/// Those that a job file may name.
std::vector<const OpSpec*> written_specs();
/// The one of them of that name, or null.
const OpSpec* find_written_spec(std::string_view name);

}  // namespace flow::ops
