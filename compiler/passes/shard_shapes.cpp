// Computes the shapes of one shard: the results of nodes for the operands of a shard, and which of
// these operands must be cut.
//
// A variable, or another value that all shards share, may have a slice for each row of the batch.
// If it is combined with rows, each shard gathers the slices of its rows, by their numbers, which
// are an input of the job.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/call_site.h"
#include "compiler/passes/passes.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;

/// A limit on the choices of axes that are tried. No node that fits needs this many.
constexpr int kMostTries = 10'000;

class Slicer {
 public:
  Slicer(ir::Graph& graph, Diags& diags)
      : graph_(graph),
        builder_(graph, diags),
        shapes_(graph, [this](ValueId id) { return is_shared(id); }) {}

  void run() {
    const size_t count = graph_.nodes.size();
    for (size_t i = 0; i < count; ++i) visit(i);
    graph_.move_last(before_);
  }

 private:
  /// For each operand, the axis along which it is sliced. Empty if no slices fit.
  using Axes = std::vector<std::optional<int>>;

  bool is_shared(ValueId id) const { return graph_[id].batch_axis == ir::kNoBatch; }

  void visit(size_t index) {
    const ir::Node& node = graph_.nodes[index];
    const auto has_rows = [&](ValueId id) { return graph_[id].batch_axis >= 0; };
    if (node.per_shard || std::ranges::none_of(node.operands, has_rows) ||
        std::ranges::none_of(node.operands, [&](ValueId id) { return is_shared(id); }))
      return;
    const Axes axes = axes_to_slice(node);
    if (axes.empty() || !makes_same(node, axes)) return;
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i]) {
        const ValueId slice = slice_of(graph_.nodes[index].operands[i], *axes[i], index);
        graph_.nodes[index].operands[i] = slice;
      }
  }

  Axes axes_to_slice(const ir::Node& node) const {
    std::vector<Shape> shapes = shapes_of_shard(node);
    Axes axes;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ValueId operand = node.operands[i];
      const auto axis =
          is_shared(operand) ? cut_axis(graph_[operand].shape, shapes[i]) : std::nullopt;
      axes.push_back(axis && needs_slice(operand, *axis) ? axis : std::nullopt);
    }
    return axes;
  }

  /// Returns the shapes of the node's operands in one shard, or nothing if no shapes fit.
  std::vector<Shape> shapes_of_shard(ir::Node node) const {
    if (const int axis = graph_[node.results[0]].batch_axis; axis >= 0)
      shapes_.cut_attributes(node, axis);
    std::vector<ir::Value> expected;
    for (const ValueId result : node.results) {
      expected.push_back(graph_[result]);
      expected.back().shape = graph_.shape_of_shard(result);
    }
    std::vector<Shape> shapes;
    for (const ValueId operand : node.operands) shapes.push_back(graph_.shape_of_shard(operand));
    return shapes_.fit(node, expected, shapes) ? shapes : std::vector<Shape>();
  }

  /// Returns true if the results have the same batch axes when the operands have rows along `axes`.
  bool makes_same(const ir::Node& node, const Axes& axes) const {
    std::vector<ops::Operand> operands;
    for (size_t i = 0; i < axes.size(); ++i) {
      const ir::Value& value = graph_[node.operands[i]];
      operands.push_back({value.dtype, value.shape, axes[i].value_or(value.batch_axis)});
    }
    const auto made =
        shapes_.infer(*node.op, std::move(operands), node.attributes, shapes_.batch());
    return std::ranges::equal(made, node.results, [&](const ops::Result& result, ValueId id) {
      return result.batch_axis == graph_[id].batch_axis;
    });
  }

  /// Returns true if the value has a slice for each row along `axis`, and a shard cannot recompute
  /// its slice from fewer elements.
  bool needs_slice(ValueId value, int axis) const {
    if (graph_[value].shape[axis] != shapes_.batch()) return false;
    return !can_be_made(value, axis);
  }

  bool can_be_made(ValueId value, int axis) const {
    const auto made = shapes_.remake(value, axis);
    if (!made) return false;
    for (size_t i = 0; i < made->shapes.size(); ++i) {
      const ValueId operand = made->node.operands[i];
      const auto along = cut_axis(graph_[operand].shape, made->shapes[i]);
      if (along && !can_be_made(operand, *along)) return false;
    }
    return true;
  }

  ValueId slice_of(ValueId value, int axis, size_t before) {
    const auto known = slices_.find({value, axis});
    if (known != slices_.end()) return known->second;
    const Span span = graph_.nodes[before].span;
    builder_.place_on(graph_.nodes[before].device);
    if (!graph_.row_numbers.valid())
      graph_.row_numbers =
          builder_.add_input("batch:rows", DType::kInt32, {shapes_.batch()}, 0, span);
    const ValueId slice =
        builder_.add("gather", fmt::format("{}:rows{}", graph_[value].name, axis),
                     {value, graph_.row_numbers}, {{"axis", int64_t{axis}}}, span);
    before_.push_back(before);
    return slices_[{value, axis}] = slice;
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  const ShardShapes shapes_;
  std::map<std::pair<ValueId, int>, ValueId> slices_;  // by value and axis
  // For each added node, the node that it is placed before.
  std::vector<size_t> before_;
};

}  // namespace

std::optional<int> cut_axis(const Shape& whole, const Shape& part) {
  for (int axis = 0; axis < whole.rank(); ++axis)
    if (whole[axis] != part[axis]) return axis;
  return {};
}

ShardShapes::ShardShapes(const ir::Graph& graph, std::function<bool(ir::ValueId)> is_shared)
    : graph_(graph), is_shared_(std::move(is_shared)), batch_(types_of(graph).batch) {}

bool ShardShapes::cut(Shape& shape, int axis) const {
  if (shape[axis] % graph_.shards != 0) return false;
  shape[axis] /= graph_.shards;
  return true;
}

void ShardShapes::cut_attributes(ir::Node& node, int axis) const {
  for (const ops::PlanAttribute& attribute : node.op->plan_attributes) {
    if (!attribute.of_result && !attribute.of_operand) continue;
    const int along = attribute.of_result ? axis : graph_[node.operands[0]].batch_axis;
    auto extents = node.attributes.get<std::vector<int64_t>>(attribute.name);
    if (along >= 0) extents[static_cast<size_t>(along)] /= graph_.shards;
    node.attributes.set(attribute.name, std::move(extents));
  }
}

std::vector<ops::Result> ShardShapes::infer(const ops::OpSpec& op,
                                            std::vector<ops::Operand> operands,
                                            const ir::Attributes& attributes, int64_t batch) const {
  ops::JobTypes types = types_of(graph_);
  types.batch = batch;
  ops::Call call(std::move(operands), attributes, types);
  op.infer(call);
  return call.failed() ? std::vector<ops::Result>() : call.results();
}

bool ShardShapes::makes(const ir::Node& node, const std::vector<Shape>& shapes,
                        const std::vector<ir::Value>& expected) const {
  std::vector<ops::Operand> operands;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ir::Value& value = graph_[node.operands[i]];
    operands.push_back({value.dtype, shapes[i], value.batch_axis});
  }
  const auto made = infer(*node.op, std::move(operands), node.attributes, batch_ / graph_.shards);
  return std::ranges::equal(made, expected, [](const auto& result, const ir::Value& value) {
    return result.dtype == value.dtype && result.shape == value.shape &&
           result.batch_axis == value.batch_axis;
  });
}

bool ShardShapes::fit(const ir::Node& node, const std::vector<ir::Value>& expected,
                      std::vector<Shape>& shapes) const {
  int tries = kMostTries;
  return fit(node, expected, shapes, tries, 0);
}

/// Leaves the operands before `first` unchanged.
bool ShardShapes::fit(const ir::Node& node, const std::vector<ir::Value>& expected,
                      std::vector<Shape>& shapes, int& tries, size_t first) const {
  if (makes(node, shapes, expected)) return true;
  for (size_t i = first; i < shapes.size() && --tries > 0; ++i) {
    if (!is_shared_(node.operands[i])) continue;
    const Shape whole = shapes[i];
    for (int axis = 0; axis < whole.rank(); ++axis) {
      if (cut(shapes[i], axis) && fit(node, expected, shapes, tries, i + 1)) return true;
      shapes[i] = whole;
    }
  }
  return false;
}

std::vector<Shape> ShardShapes::shapes_of_operands(const ir::Node& node) const {
  std::vector<Shape> shapes;
  for (const ir::ValueId operand : node.operands) shapes.push_back(graph_[operand].shape);
  return shapes;
}

std::optional<ShardShapes::Remade> ShardShapes::remake(ir::ValueId value, int axis) const {
  const ir::Node* maker = graph_.producer_of(value);
  if (!maker || maker->results.size() != 1) return {};
  Remade made{*maker, graph_[value], shapes_of_operands(*maker)};
  cut(made.value.shape, axis);
  cut_attributes(made.node, axis);
  if (!fit(made.node, {made.value}, made.shapes) || !keeps_rows(*maker, made.shapes, axis))
    return {};
  return made;
}

/// Returns true if each slice of the node's result depends only on one slice of the operands that
/// are cut.
bool ShardShapes::keeps_rows(const ir::Node& maker, const std::vector<Shape>& shapes,
                             int axis) const {
  std::vector<ops::Operand> operands;
  bool reads_slices = false;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ir::Value& operand = graph_[maker.operands[i]];
    const auto along = cut_axis(operand.shape, shapes[i]);
    operands.push_back({operand.dtype, operand.shape, along.value_or(ir::kNoBatch)});
    reads_slices |= along.has_value();
  }
  if (!reads_slices) return true;
  const auto made = infer(*maker.op, std::move(operands), maker.attributes, batch_);
  return !made.empty() && made[0].batch_axis == axis;
}

void slice_shared(ir::Graph& graph, Context&, Diags& diags) {
  if (graph.shards > 1) Slicer(graph, diags).run();
}

}  // namespace flow::passes
