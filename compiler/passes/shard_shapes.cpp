// Shapes of one shard: what nodes make of a shard's operands, and which of these must be cut.
#include "compiler/passes/shard_shapes.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/call_site.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

/// More choices of axes than any node has that fits.
constexpr int kMostTries = 10'000;

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

/// Operands before `first` stay as they are.
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

/// Does each slice of what the node makes come from one slice of the operands that have other
/// shapes?
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

}  // namespace flow::passes
