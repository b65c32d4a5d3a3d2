// Selects, writes and finds elements by index.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/text.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// Returns indices as int32 or int64.
std::string indices_of(StepExport& step, const Value& indices) {
  return indices.dtype == DType::kInt32 ? indices.name
                                        : step.cast(indices.name, indices.dtype, DType::kInt64);
}

void gather(StepExport& step) {
  step.result("Gather", {step.in(0).name, indices_of(step, step.in(1))},
              {{"axis", step.attribute<int64_t>("axis")}});
}

/// Returns a mask of the bag indices whose places are less than the lengths.
std::string in_bags(StepExport& step) {
  const Value &indices = step.in(0), &lengths = step.in(1);
  if (lengths.batch_axis != indices.batch_axis) step.fix_batch();
  std::vector<double> numbers(static_cast<size_t>(indices.shape[indices.shape.rank() - 1]));
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::string ends = step.node(
      "Unsqueeze",
      {step.cast(lengths.name, lengths.dtype, DType::kInt64), step.vector({lengths.shape.rank()})});
  return step.node("Less", {step.numbers(numbers, DType::kInt64), ends});
}

void bag_indices(StepExport& step) {
  const Value& in = step.in(0);
  const std::string none = step.number(-1, DType::kInt64);
  std::string indices = step.cast(in.name, in.dtype, DType::kInt64);
  if (step.has("padding")) {
    const auto padding = static_cast<double>(step.attribute<int64_t>("padding"));
    const std::string padded = step.node("Equal", {indices, step.number(padding, DType::kInt64)});
    indices = step.node("Where", {padded, none, indices});
  }
  if (step.operands() > 1)
    step.result("Where", {in_bags(step), indices, none});
  else
    step.result("Identity", {indices});
}

/// Gathers the rows of a table for the indices of bags. Indices that do not count give `neutral`.
std::string rows_of_bags(StepExport& step, double neutral) {
  const Value& indices = step.in(1);
  const std::string last = step.vector({-1}), zero = step.number(0, DType::kInt64);
  const std::string places = step.cast(indices.name, indices.dtype, DType::kInt64);
  std::string rows =
      step.node("Gather", {step.in(0).name, step.node("Max", {places, zero})}, {{"axis", 0}});
  if (step.operands() > 2)
    rows = step.node("Mul", {rows, step.node("Unsqueeze", {step.in(2).name, last})});
  const std::string counted = step.node("GreaterOrEqual", {places, zero});
  return step.node("Where", {step.node("Unsqueeze", {counted, last}), rows, step.number(neutral)});
}

void bag_sum(StepExport& step) {
  step.result("ReduceSum", {rows_of_bags(step, 0), step.vector({-2})}, {{"keepdims", 0}});
}

/// An empty bag has no valid index: its largest index is below 0. Its result is 0.
void bag_max(StepExport& step) {
  const std::string rows = rows_of_bags(step, -std::numeric_limits<double>::infinity());
  const std::string largest =
      step.node("ReduceMax", {rows}, {{"axes", Integers{-2}}, {"keepdims", 0}});
  const std::string last =
      step.node("ReduceMax", {step.in(1).name}, {{"axes", Integers{-1}}, {"keepdims", 1}});
  const std::string empty = step.node("Less", {last, step.number(0, step.in(1).dtype)});
  step.result("Where", {empty, step.number(0), largest});
}

/// Returns the permutation that moves `count` axes, beginning at `first`, to the front, and its
/// inverse.
std::pair<Integers, Integers> axes_first(int rank, int first, int count) {
  Integers perm(static_cast<size_t>(rank)), inverse(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin(), perm.begin() + first, perm.begin() + first + count);
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return {perm, inverse};
}

/// Writes a gather with an index for each element of the result.
void take_along_axis(StepExport& step) {
  step.fix_mixed_batch();
  step.result("GatherElements", {step.in(0).name, indices_of(step, step.in(1))},
              {{"axis", step.attribute<int64_t>("axis")}});
}

/// Writes a scatter with an index for each element that is written.
void write_along_axis(StepExport& step) {
  step.fix_mixed_batch();
  step.result("ScatterElements", {step.in(0).name, indices_of(step, step.in(1)), step.in(2).name},
              {{"axis", step.attribute<int64_t>("axis")}, {"reduction", step.type()}});
}

/// ScatterND writes or adds slices along the first axes, so the axis is moved to the front.
void scatter(StepExport& step) {
  const Value &x = step.in(0), &indices = step.in(1), &updates = step.in(2);
  const auto axis = static_cast<int>(step.attribute<int64_t>("axis"));
  const std::string places = step.node(
      "Unsqueeze",
      {step.cast(indices.name, indices.dtype, DType::kInt64), step.vector({indices.shape.rank()})});
  const NodeAttributes reduction = {{"reduction", step.type()}};
  if (axis == 0) return step.result("ScatterND", {x.name, places, updates.name}, reduction);
  const auto [perm, inverse] = axes_first(x.shape.rank(), axis, 1);
  const Integers first = axes_first(updates.shape.rank(), axis, indices.shape.rank()).first;
  const std::string moved = step.node("ScatterND",
                                      {step.node("Transpose", {x.name}, {{"perm", perm}}), places,
                                       step.node("Transpose", {updates.name}, {{"perm", first}})},
                                      reduction);
  step.result("Transpose", {moved}, {{"perm", inverse}});
}

/// Bools are computed as integers, because runtimes do not support OneHot of bools.
void one_hot(StepExport& step) {
  const Value& indices = step.in();
  const bool is_bool = step.out().dtype == DType::kBool;
  const std::string both =
      step.numbers({step.attribute<double>("off_value"), step.attribute<double>("on_value")},
                   is_bool ? DType::kInt64 : step.out().dtype);
  const Strings inputs = {
      step.cast(indices.name, indices.dtype, DType::kInt64),
      step.number(static_cast<double>(step.attribute<int64_t>("depth")), DType::kInt64), both};
  const NodeAttributes last = {{"axis", -1}};
  if (!is_bool) return step.result("OneHot", inputs, last);
  step.result("Cast", {step.node("OneHot", inputs, last)}, {{"to", data_type_of(DType::kBool)}});
}

/// Integers are cast to int64, because runtimes do not support Trilu of other integers.
void triangle(StepExport& step) {
  const Value& x = step.in();
  const DType dtype = is_float(x.dtype) ? x.dtype : DType::kInt64;
  const auto diagonal = static_cast<double>(step.attribute<int64_t>("diagonal"));
  const std::string made =
      step.node("Trilu", {step.cast(x.name, x.dtype, dtype), step.number(diagonal, DType::kInt64)},
                {{"upper", int64_t{step.type() == "upper"}}});
  step.result("Identity", {step.cast(made, dtype, x.dtype)});
}

void top_k(StepExport& step) {
  step.results("TopK", {step.in().name, step.vector({step.attribute<int64_t>("k")})}, 2,
               {{"axis", step.attribute<int64_t>("axis")}});
}

void arg_extreme(StepExport& step) {
  step.result(step.type(), step.names(),
              {{"axis", step.attribute<int64_t>("axis")}, {"keepdims", 0}});
}

Tensors triangle(NodeImport& node) {
  const Integers diagonal = node.has(1) ? node.values_as_int64(1) : Integers{0};
  if (diagonal.size() != 1) refuse("several diagonals");
  return {node.call(node.integer("upper", 1) != 0 ? "triu" : "tril", {node.operand(0)},
                    {{"diagonal", diagonal[0]}})};
}

/// Returns true if operand 0 is a table of floats that can be the weight of a layer. The layer does
/// not expect indices below 0.
bool is_table(const NodeImport& node, int axis) {
  const Tensor& table = node.in(0);
  return table.value && table.reference.kind == Reference::Kind::kNone && node.rank() == 2 &&
         axis == 0 && node.is_float() && !node.in(1).value && is_integer(node.in(1).dtype);
}

Tensor embedding(NodeImport& node) {
  const Array& weight = node.value(0);
  const Tensor indices = node.operand(1);
  Integers extents = indices.shape.extents();
  extents.push_back(weight.shape()[1]);
  Tensor looked = node.layer(
      "embedding", {indices}, {{"vocab_size", weight.shape()[0]}, {"units", weight.shape()[1]}},
      Shape(std::move(extents)), indices.batch_axis, {{"weight", weight}}, {0});
  looked.dtype = node.compute_dtype();
  return looked;
}

Tensors gather(NodeImport& node) {
  const int axis = node.axis(node.integer("axis", 0));
  if (is_table(node, axis)) return {embedding(node)};
  const Tensor indices = node.indices(1, node.in(0).size(axis));
  return {node.call("gather", {node.operand(0), indices}, {{"axis", axis}})};
}

/// Selects the elements along an axis, or of the flattened operand, for which a known condition is
/// true.
Tensors compress(NodeImport& node) {
  Tensor x = node.operand(0);
  int axis = 0;
  if (const auto* given = node.find("axis", pb::AttributeProto::INT))
    axis = node.axis(given->i());
  else
    x = node.reshape(x, Sizes{product(x.all_sizes())});
  const Integers condition = node.values_as_int64(1);
  Integers chosen;
  for (int64_t i = 0; i < std::ssize(condition); ++i)
    if (condition[static_cast<size_t>(i)] != 0) chosen.push_back(i);
  if (chosen.empty() || x.shape.rank() == 0 || chosen.back() >= x.shape[axis])
    refuse("{} of {}", counted(chosen.size(), "element"), x.shape.str());
  const Tensor indices = node.constant(int64_array(chosen, Shape{std::ssize(chosen)}));
  return {node.call("gather", {x, node.materialized(indices, "chosen")}, {{"axis", axis}})};
}

/// Cuts the operand to the extents of the indices along the other axes. ONNX allows smaller extents
/// there, while take_along_axis does not.
Tensor within_indices(NodeImport& node, const Tensor& x, const Tensor& indices, int axis) {
  if (indices.shape.rank() != x.shape.rank())
    refuse("indices {} for {}", indices.shape.str(), x.shape.str());
  bool is_part = false;
  std::vector<std::string> index;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const bool cut = i != axis && indices.shape[i] < x.shape[i];
    // take_along_axis rejects all other differences itself.
    if (cut) node.pin({indices.size(i), x.size(i)});
    index.push_back(cut ? fmt::format("0:{}", indices.shape[i]) : ":");
    is_part |= cut;
  }
  if (!is_part) return x;
  return node.call("slice", {x}, {{"index", fmt::format("[{}]", fmt::join(index, ", "))}});
}

Tensors gather_elements(NodeImport& node) {
  const int axis = node.axis(node.integer("axis", 0));
  const Tensor indices = node.indices(1, node.in(0).size(axis));
  const Tensor x = within_indices(node, node.operand(0), indices, axis);
  return {node.call("take_along_axis", {x, indices}, {{"axis", axis}})};
}

std::string reduction_of(NodeImport& node) {
  const std::string reduction = node.text("reduction", "none");
  if (reduction != "none" && reduction != "add") refuse("products or extremes (reduction)");
  return reduction;
}

Tensors scatter_elements(NodeImport& node) {
  const int axis = node.axis(node.integer("axis", 0));
  const bool adds = reduction_of(node) == "add";
  const Tensor indices = node.indices(1, node.in(0).size(axis));
  return {node.call(adds ? "add_along_axis" : "put_along_axis",
                    {node.operand(0), indices, node.operand(2)}, {{"axis", axis}})};
}

/// Returns the indices of the axes of operand 0 that begin at `first`. Each row contains one index
/// per axis, and none is below 0.
Tensor row_indices(NodeImport& node, int first) {
  const Shape &shape = node.in(0).shape, &given = node.in(1).shape;
  const int64_t axes = given.rank() > 0 ? given[given.rank() - 1] : 0;
  if (axes < 1 || first + axes > shape.rank() || !is_integer(node.in(1).dtype))
    refuse("indices {} for {}", given.str(), shape.str());
  if (!node.in(1).value) return node.operand(1);
  Integers all = node.values_as_int64(1);
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t extent = shape[first + static_cast<int>(i % static_cast<size_t>(axes))];
    if (all[i] < -extent || all[i] >= extent)
      refuse("an index of {} into {} elements", all[i], extent);
    if (all[i] >= 0) continue;
    all[i] += extent;
    node.pin({node.in(0).size(first + static_cast<int>(i % static_cast<size_t>(axes)))});
  }
  if (all == node.values_as_int64(1)) return node.operand(1);
  return node.materialized(node.constant(int64_array(all, given)), "indices_from_start");
}

/// Returns the batch axis of the result of picking slices from `params`. The first `rows` axes of
/// the result are those of the indices, and replace the first `dropped` axes of `params`.
int batch_of_slices(const Tensor& params, const Tensor& indices, int rows, int dropped) {
  if (indices.batch_axis >= 0)
    return indices.batch_axis < rows ? indices.batch_axis : ops::kBatchReduced;
  if (params.batch_axis < 0) return params.batch_axis;
  return params.batch_axis < dropped ? ops::kBatchReduced : params.batch_axis - dropped + rows;
}

Tensors gather_nd(NodeImport& node) {
  const int64_t shared = node.integer("batch_dims", 0);
  const Shape &shape = node.in(0).shape, &given = node.in(1).shape;
  if (shared < 0 || shared >= given.rank() || shared >= shape.rank() ||
      given.first(static_cast<int>(shared)) != shape.first(static_cast<int>(shared)))
    refuse("{} shared axes of {} and {}", shared, shape.str(), given.str());
  const Tensor indices = row_indices(node, static_cast<int>(shared));
  const Tensor params = node.operand(0);
  const int rows = given.rank() - 1;
  const int picked = static_cast<int>(shared + given[rows]);
  Integers extents = given.first(rows).extents();
  const Shape slice = shape.from(picked);
  extents.insert(extents.end(), slice.begin(), slice.end());
  Tensor slices =
      node.layer("gather_nd", {params, indices}, {{"batch_dims", shared}},
                 Shape(std::move(extents)), batch_of_slices(params, indices, rows, picked));
  for (int axis = 0; axis < slices.shape.rank() && !slices.sizes.empty(); ++axis)
    slices.sizes[static_cast<size_t>(axis)] =
        axis < rows ? indices.size(axis) : params.size(axis - rows + picked);
  return {slices};
}

Tensors scatter_nd(NodeImport& node) {
  const bool adds = reduction_of(node) == "add";
  const Tensor indices = row_indices(node, 0);
  const Tensor x = node.operand(0), updates = node.operand(2);
  const bool has_batch = x.batch_axis != ops::kNoBatch || indices.batch_axis != ops::kNoBatch ||
                         updates.batch_axis != ops::kNoBatch;
  return {node.layer("scatter_nd", {x, indices, updates}, {{"reduction", adds ? "add" : "replace"}},
                     x.shape, has_batch ? ops::kBatchReduced : ops::kNoBatch)};
}

Tensors one_hot(NodeImport& node) {
  const Integers depth = node.values_as_int64(1);
  const Array values = converted(node.value(2), DType::kFloat64);
  if (depth.size() != 1 || depth[0] < 1 || depth[0] > ops::kMaxSize || values.shape() != Shape{2})
    refuse("no depth or no values");
  const Tensor hot = node.call("one_hot", {node.indices(0, fixed(depth[0]))},
                               {{"depth", depth[0]},
                                {"on_value", values.as<double>()[1]},
                                {"off_value", values.as<double>()[0]},
                                {"dtype", node.in(2).dtype}});
  return {node.with_last_at(hot, node.axis(node.integer("axis", -1), hot.shape.rank()))};
}

/// Element t of a sequence with n elements becomes element n - 1 - t. Elements after the sequence
/// do not change.
Tensors reverse_sequence(NodeImport& node) {
  const int time = node.axis(node.integer("time_axis", 0)),
            batch = node.axis(node.integer("batch_axis", 1));
  const Tensor x = node.operand(0), lengths = node.operand(1);
  if (time == batch || lengths.shape != Shape{x.shape[batch]} || lengths.dtype != DType::kInt64)
    refuse("lengths {} for {}", lengths.shape.str(), x.shape.str());
  const auto along = [&](const Tensor& vector, int axis) {
    Sizes extents = fixed(Integers(static_cast<size_t>(x.shape.rank()), 1));
    extents[static_cast<size_t>(axis)] = vector.size(0);
    return node.reshape(vector, extents);
  };
  const Tensor steps = node.range(fixed(0), x.size(time), fixed(1), DType::kInt64);
  Sizes copies = x.all_sizes();
  const Tensor place = along(steps, time), length = along(lengths, batch);
  const Tensor last = node.call("subtract", length, 1);
  Tensor indices = node.call(
      "where", {node.call("less", {place, length}), node.call("subtract", {last, place}), place});
  copies[static_cast<size_t>(time)] = copies[static_cast<size_t>(batch)] = fixed(1);
  indices = node.tile(indices, copies);
  return {node.call("take_along_axis", {x, indices}, {{"axis", time}})};
}

/// Returns the elements in the opposite order of magnitude, without rounding.
Tensor opposite(NodeImport& node, const Tensor& x) {
  if (flow::is_float(x.dtype)) return node.call("negative", {x});
  const double most = x.dtype == DType::kUInt8 ? 255 : -1;
  return node.call("subtract", {NodeImport::scalar(most, x.dtype), x});
}

Tensors top_k(NodeImport& node) {
  node.ignore("sorted");
  const bool largest = node.integer("largest", 1) != 0;
  const Integers k = node.has(1) ? node.values_as_int64(1) : Integers{node.integer("k", 0)};
  if (k.size() != 1) refuse("several k");
  const Tensor x = node.operand(0);
  Tensors results = node.calls("top_k", {largest ? x : opposite(node, x)},
                               {{"k", k[0]}, {"axis", node.integer("axis", -1)}}, 2);
  if (!largest) results[0] = opposite(node, results[0]);
  return results;
}

/// Returns the last of several equal extremes, which is the first one in the flipped operand.
Tensor last_extreme(NodeImport& node, const Tensor& x, int axis) {
  const Tensor flipped = node.call("flip", {x}, {{"axis", Integers{axis}}});
  const Tensor found = node.call(node.op(), {flipped}, {{"axis", axis}});
  const Size last = computed("Sub", x.size(axis), fixed(1)).value_or(fixed(0));
  return node.call("subtract", {node.scalar(last, found.dtype), found});
}

Tensors arg_extreme(NodeImport& node) {
  const int axis = node.axis(node.integer("axis", 0));
  const Tensor x = node.operand(0);
  const Tensor found = node.integer("select_last_index", 0) != 0
                           ? last_extreme(node, x, axis)
                           : node.call(node.op(), {x}, {{"axis", axis}});
  if (node.integer("keepdims", 1) == 0) return {found};
  Integers extents = x.shape.extents();
  extents[static_cast<size_t>(axis)] = 1;
  Tensor kept =
      node.layer("expand_dims", {found}, {{"axis", Integers{axis}}}, Shape(std::move(extents)),
                 x.batch_axis == axis ? ops::kBatchReduced : x.batch_axis);
  kept.sizes = x.sizes;
  if (!kept.sizes.empty()) kept.sizes[static_cast<size_t>(axis)] = fixed(1);
  return {kept};
}

constexpr Rule kIndexRules[] = {
    {"gather", "Gather", gather, gather},
    {"", "GatherND", nullptr, gather_nd},
    {"bag_indices", "", bag_indices},
    {"bag_sum", "", bag_sum},
    {"bag_max", "", bag_max},
    {"", "Compress", nullptr, compress},
    {"scatter_add", "add", scatter},
    {"scatter_update", "none", scatter},
    {"", "ScatterND", nullptr, scatter_nd},
    {"take_along_axis", "GatherElements", take_along_axis, gather_elements},
    {"put_along_axis", "none", write_along_axis},
    {"add_along_axis", "add", write_along_axis},
    {"", "Scatter", nullptr, scatter_elements},
    {"", "ScatterElements", nullptr, scatter_elements},
    {"one_hot", "OneHot", one_hot, one_hot},
    {"", "ReverseSequence", nullptr, reverse_sequence},
    {"tril", "lower", triangle},
    {"triu", "upper", triangle},
    {"", "Trilu", nullptr, triangle},
    {"top_k", "TopK", top_k, top_k, !kBroadcasts, kWidens},
    {"argmax", "ArgMax", arg_extreme, arg_extreme},
    {"argmin", "ArgMin", arg_extreme, arg_extreme},
};

}  // namespace

std::span<const Rule> index_rules() { return kIndexRules; }

}  // namespace flow::onnx
