// What records of ops say of shards, on random calls of the reference kernels in float64: where the
// rows of a batch lie in results, what makes a whole result of the shards' parts, and in which
// operands an op is linear.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "ops/core/check.h"
#include "runtime/base/element_types.h"
#include "tests/property/random_cases.h"
#include "tests/support/sanitized.h"

namespace flow::test {
namespace {

using ops::Combine;
using Axes = std::vector<int>;  // the batch axis of each operand
using Types = std::vector<ops::Result>;

constexpr int kCalls = 60 / kCasesPerTried;

/// All but those that run once behind the shards, and layers.
std::vector<const ops::OpSpec*> ops_of_shards() {
  std::vector<const ops::OpSpec*> found;
  for (const ops::OpSpec* op : ops::all_specs())
    if (op->infer && !op->dropped && !op->runs_once() && !op->operands.empty()) found.push_back(op);
  return found;
}

bool is_small(const KernelCase& one) {
  constexpr int64_t kMost = 4000;
  const auto few = [](const Shape& shape) { return shape.elements() <= kMost; };
  return std::ranges::all_of(one.inputs, few, &Array::shape) &&
         std::ranges::all_of(one.results, few, &Result::shape);
}

/// Random calls of the op, in float64 where no attribute says the dtype.
std::vector<KernelCase> calls_of(const ops::OpSpec& op) {
  const std::string name(op.name);
  Random random(static_cast<Random::result_type>(name.size() * 1000 + name.front()));
  std::vector<KernelCase> calls;
  for (int i = 0; i < kCalls; ++i) {
    KernelCase one = random_case(name, random);
    for (Result& result : one.results) result.alias = -1;
    if (is_small(one)) calls.push_back(has_dtype_attribute(name) ? std::move(one) : widened(one));
  }
  return calls;
}

std::vector<Array> run(const KernelCase& one) {
  return run_kernel(one, {cpu::reference_kernels()}).outputs;
}

/// Sums of a few thousand numbers in float64; integers wrap around.
bool is_near(double a, double b, DType dtype) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  if (!is_float(dtype))
    return std::remainder(a - b, std::exp2(8 * static_cast<double>(size_of(dtype)))) == 0;
  return std::abs(a - b) <= (dtype == DType::kFloat64 ? 1e-10 : 1e-5) * (1 + std::abs(b));
}

bool are_near(const Array& a, const Array& b) {
  for (int64_t i = 0; i < b.shape().elements(); ++i)
    if (!is_near(number_at(a, i), number_at(b, i), b.dtype())) return false;
  return true;
}

// Calls in shards.

/// The smallest number of shards, above 1, that divides the rows.
std::optional<int64_t> shards_of(int64_t rows) {
  constexpr int64_t kMost = 8;
  for (int64_t shards = 2; shards <= kMost; ++shards)
    if (rows % shards == 0) return shards;
  return {};
}

/// What the shape function makes of the call; nothing where it refuses it.
Types infer(const KernelCase& one, const Axes& axes, int64_t rows, int64_t shards) {
  const ops::OpSpec& op = *ops::find_spec(one.op);
  ops::Attributes attributes;
  for (const auto& [name, value] : one.attributes) attributes.set(name, value);
  std::vector<ops::Operand> operands;
  for (size_t i = 0; i < one.inputs.size(); ++i)
    operands.push_back({one.inputs[i].dtype(), one.inputs[i].shape(), axes[i]});
  const DType compute = has_dtype_attribute(one.op) ? DType::kFloat32 : DType::kFloat64;
  ops::Call call(std::move(operands), attributes,
                 {.compute = compute, .batch = rows, .shards = shards});
  ops::check_types(op, call);
  if (!call.failed()) op.infer(call);
  return call.failed() ? Types() : call.results();
}

/// Shard s of the rows along `axis`.
Array part_of(const Array& whole, int axis, int64_t shards, int64_t s) {
  Shape shape = whole.shape();
  shape[axis] /= shards;
  Array part(whole.dtype(), shape);
  const int64_t block =
      shape.elements(axis, shape.rank()) * static_cast<int64_t>(size_of(whole.dtype()));
  const int64_t outer = shape.elements(0, axis);
  for (int64_t i = 0; i < outer; ++i)
    std::copy_n(whole.bytes().begin() + (i * shards + s) * block, block,
                part.bytes().begin() + i * block);
  return part;
}

/// A call whose operands have a batch axis or none, and what its shape function says.
struct BatchedCall {
  const KernelCase& whole;
  Axes axes;
  int64_t rows, shards;
  Types types = infer(whole, axes, rows, shards);

  BatchedCall without_rows(size_t operand) const {
    Axes fewer = axes;
    fewer[operand] = ops::kNoBatch;
    return {whole, std::move(fewer), rows, shards};
  }
  bool has_rows() const {
    return std::ranges::any_of(axes, [](int axis) { return axis >= 0; });
  }

  /// What shard s computes.
  KernelCase of_shard(int64_t s) const {
    KernelCase one = whole;
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] >= 0) one.inputs[i] = part_of(whole.inputs[i], axes[i], shards, s);
    for (size_t i = 0; i < types.size(); ++i)
      if (const int axis = types[i].batch_axis; axis >= 0) one.results[i].shape[axis] /= shards;
    for (const ops::PlanAttribute& attribute : ops::find_spec(one.op)->plan_attributes) {
      if (attribute.of_result) cut_attribute(one, attribute.name, types[0].batch_axis);
      if (attribute.of_operand) cut_attribute(one, attribute.name, axes[0]);
    }
    return one;
  }

  /// Does the op make the parts of results from the parts of operands? Not where an operand without
  /// a batch axis has a slice for each row.
  bool fits() const {
    const KernelCase one = of_shard(0);
    const Types made = infer(one, axes, rows / shards, shards);
    return std::ranges::equal(made, one.results, {}, &ops::Result::shape, &Result::shape);
  }

  /// Does a shard do with its own rows what the op does with all of them?
  bool differs_by_shards() const {
    return types[0].batch_axis >= 0 && infer(whole, axes, rows, 1)[0].batch_axis < 0;
  }

 private:
  void cut_attribute(KernelCase& one, std::string_view name, int axis) const {
    if (axis < 0) return;
    const auto found = std::ranges::find_if(one.attributes,
                                            [&](const auto& entry) { return entry.first == name; });
    std::get<std::vector<int64_t>>(found->second)[static_cast<size_t>(axis)] /= shards;
  }
};

/// The next choice of batch axes with that many rows, at most one per operand. False after the
/// last.
bool next_axes(const KernelCase& one, int64_t rows, Axes& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const Shape& shape = one.inputs[i].shape();
    do ++axes[i];
    while (axes[i] < shape.rank() && shape[axes[i]] != rows);
    if (axes[i] < shape.rank()) return true;
    axes[i] = ops::kNoBatch;
  }
  return false;
}

/// Calls check(call) for every choice of batch axes.
template <typename Check>
void for_batch_axes(const KernelCase& one, Check check) {
  std::set<int64_t> extents;
  for (const Array& input : one.inputs) extents.insert(input.shape().begin(), input.shape().end());
  for (const int64_t rows : extents) {
    const auto shards = shards_of(rows);
    Axes axes(one.inputs.size(), ops::kNoBatch);
    while (shards && next_axes(one, rows, axes)) check(BatchedCall{one, axes, rows, *shards});
  }
}

double combined(Combine how, double a, double b) {
  if (how == Combine::kMax) return std::max(a, b);
  if (how == Combine::kMin) return std::min(a, b);
  return a + b;
}

bool parts_make(const std::vector<Array>& parts, Combine how, const Array& whole) {
  const double scale = how == Combine::kMean ? 1 / static_cast<double>(parts.size()) : 1;
  for (int64_t i = 0; i < whole.shape().elements(); ++i) {
    double made = number_at(parts[0], i);
    for (size_t s = 1; s < parts.size(); ++s) made = combined(how, made, number_at(parts[s], i));
    if (!is_near(scale * made, number_at(whole, i), whole.dtype())) return false;
  }
  return true;
}

/// Is `whole` what the type says of the parts? Nothing where it says that no parts make it.
std::optional<bool> agrees(const ops::Result& type, const std::vector<Array>& parts,
                           const Array& whole) {
  const std::ptrdiff_t shards = std::ssize(parts);
  if (type.batch_axis == ops::kBatchReduced) {
    if (type.combine == Combine::kNone) return {};
    return parts_make(parts, type.combine, whole);
  }
  for (std::ptrdiff_t s = 0; s < shards; ++s) {
    const Array& part = parts[static_cast<size_t>(s)];
    const bool near = type.batch_axis < 0
                          ? are_near(part, whole)
                          : are_near(part, part_of(whole, type.batch_axis, shards, s));
    if (!near) return false;
  }
  return true;
}

/// Runs the call whole and in shards. False where its record says that no parts make a result.
bool require_parts_make_whole(const BatchedCall& call) {
  const std::vector<Array> whole = run(call.whole);
  std::vector<std::vector<Array>> parts(whole.size());  // by result, then by shard
  for (int64_t s = 0; s < call.shards; ++s) {
    std::vector<Array> made = run(call.of_shard(s));
    for (size_t i = 0; i < made.size(); ++i) parts[i].push_back(std::move(made[i]));
  }
  bool proved = false;
  for (size_t i = 0; i < whole.size(); ++i) {
    INFO("result " << i);
    const auto right = agrees(call.types[i], parts[i], whole[i]);
    if (right) CHECK(*right);
    proved |= right.has_value();
  }
  return proved;
}

/// A gradient may be a constant, such as that of a sum; the rows are those of the other operands.
void require_constant_gradient_has_rows(const BatchedCall& call) {
  const ops::OpSpec& op = *ops::find_spec(call.whole.op);
  if (!op.internal) return;
  for (const size_t i : op.linear) {
    if (i >= call.axes.size() || call.axes[i] < 0) continue;  // absent, or without rows
    const BatchedCall constant = call.without_rows(i);
    if (!constant.has_rows() || constant.fits()) continue;
    INFO("operand " << i << " without rows");
    for (size_t k = 0; k < call.types.size(); ++k) {
      CHECK(constant.types[k].batch_axis == call.types[k].batch_axis);
      CHECK(constant.types[k].combine == call.types[k].combine);
    }
  }
}

std::string str(const Axes& axes) {
  std::string text = "batch axes";
  for (const int axis : axes) text += " " + std::to_string(axis);
  return text;
}

bool require_shards(const BatchedCall& call) {
  INFO(str(call.axes) << ", " << call.shards << " shards");
  if (call.types.empty()) return false;
  REQUIRE(call.types.size() == call.whole.results.size());
  if (!call.fits() || call.differs_by_shards() || !require_parts_make_whole(call)) return false;
  require_constant_gradient_has_rows(call);
  return true;
}

/// Does it draw a random number for each element, by its index in the whole batch?
bool draws(const ops::OpSpec& op) {
  return std::ranges::any_of(op.plan_attributes, [](const ops::PlanAttribute& attribute) {
    return attribute.name == "consumer";
  });
}

// Linear calls.

using Operands = std::vector<size_t>;

/// f(x, y) of the elements.
template <typename F>
Array elementwise(const Array& a, const Array& b, F f) {
  Array made(a.dtype(), a.shape());
  visit_float(a.dtype(), [&]<typename T>(T) {
    std::ranges::transform(a.as<T>(), b.as<T>(), made.as<T>().begin(), f);
  });
  return made;
}

/// Is the op of f(x, y) f of the op of x and of that of y, where these are read in `operands`?
template <typename F>
bool keeps(F f, const KernelCase& one, const Operands& operands) {
  Random random(7);
  KernelCase other = one, both = one;
  for (const size_t i : operands) {
    other.inputs[i] = random_array(random, one.inputs[i].dtype(), one.inputs[i].shape());
    both.inputs[i] = elementwise(one.inputs[i], other.inputs[i], f);
  }
  const std::vector<Array> x = run(one), y = run(other), expected = run(both);
  for (size_t i = 0; i < x.size(); ++i)
    if (!is_float(x[i].dtype()) || !are_near(elementwise(x[i], y[i], f), expected[i])) return false;
  return true;
}

constexpr auto kAdded = [](auto x, auto y) { return x + y; };
constexpr auto kGreater = [](auto x, auto y) { return std::max(x, y); };
constexpr auto kLess = [](auto x, auto y) { return std::min(x, y); };

Operands all_operands(const KernelCase& one) {
  Operands operands(one.inputs.size());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = i;
  return operands;
}

bool are_floats(const KernelCase& one, const Operands& operands) {
  return std::ranges::all_of(operands, [&](size_t i) { return is_float(one.inputs[i].dtype()); });
}

/// Each operand that is a float, and all of them together if they are.
std::vector<Operands> float_operands(const KernelCase& one) {
  std::vector<Operands> found;
  for (const size_t i : all_operands(one))
    if (are_floats(one, {i})) found.push_back({i});
  if (one.inputs.size() > 1 && found.size() == one.inputs.size())
    found.push_back(all_operands(one));
  return found;
}

bool is_declared_linear(const ops::OpSpec& op, const KernelCase& one, const Operands& operands) {
  if (op.linear_in_all && operands.size() == one.inputs.size()) return true;
  return operands.size() == 1 && std::ranges::find(op.linear, operands[0]) != op.linear.end();
}

std::string str(const Operands& operands) {
  std::string text = "operands";
  for (const size_t i : operands) text += " " + std::to_string(i);
  return text;
}

}  // namespace

TEST_CASE("shards make the rows and the parts of results that records say", "[property]") {
  for (const ops::OpSpec* op : ops_of_shards()) {
    if (draws(*op)) continue;
    INFO(op->name);
    bool proved = false;
    for (const KernelCase& one : calls_of(*op)) {
      INFO(one.str());
      for_batch_axes(one, [&](const BatchedCall& call) { proved |= require_shards(call); });
    }
    if (kCasesPerTried == 1) CHECK(proved);
  }
}

TEST_CASE("an op is linear in the operands of which its record says so, and in no others",
          "[property]") {
  for (const ops::OpSpec* op : ops_of_shards()) {
    INFO(op->name);
    std::map<Operands, bool> bent;  // operands in which nothing says that it is linear
    for (const KernelCase& one : calls_of(*op)) {
      INFO(one.str());
      for (const Operands& operands : float_operands(one)) {
        INFO(str(operands));
        if (is_declared_linear(*op, one, operands))
          CHECK(keeps(kAdded, one, operands));
        else
          bent[operands] |= !keeps(kAdded, one, operands);
      }
    }
    // Gradients may be linear in what forward ops made, too. No part of a sum is read there.
    if (kCasesPerTried > 1 || (op->internal && !op->linear.empty())) continue;
    for (const auto& [operands, is_bent] : bent) {
      INFO(str(operands));
      CHECK(is_bent);
    }
  }
}

TEST_CASE("ops that move elements keep maxima and minima", "[property]") {
  for (const ops::OpSpec* op : ops_of_shards()) {
    if (!op->moves_elements) continue;
    INFO(op->name);
    for (const KernelCase& one : calls_of(*op)) {
      INFO(one.str());
      const Operands operands = op->linear_in_all ? all_operands(one) : op->linear;
      if (!are_floats(one, operands)) continue;
      CHECK(keeps(kGreater, one, operands));
      CHECK(keeps(kLess, one, operands));
    }
  }
}

}  // namespace flow::test
