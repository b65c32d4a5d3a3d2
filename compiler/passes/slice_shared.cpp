// A variable, or another value that all shards share, may have a slice for each row of the batch.
// Next to rows, each shard reads the slices of its own rows: a gather by the numbers of these rows,
// which are an input of the job.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/shard_shapes.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;

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
  /// By operand: along which axis it is sliced. Empty where no slices fit.
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

  /// Of the node's operands; nothing where there are none that fit.
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

  /// Are rows of the results where they were, with rows along those axes of operands?
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

  /// Not of what shards can make anew, of fewer elements.
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
  std::vector<size_t> before_;  // of each node that is added: the node that it goes before
};

}  // namespace

void slice_shared(ir::Graph& graph, Context&, Diags& diags) {
  if (graph.shards > 1) Slicer(graph, diags).run();
}

}  // namespace flow::passes
