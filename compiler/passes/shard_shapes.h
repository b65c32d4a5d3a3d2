// Shapes of one shard: what nodes make of a shard's operands, and which of these must be cut.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "ops/core/call.h"

namespace flow::passes {

/// The axis along which `part` is a part of `whole`; nothing where they are the same.
std::optional<int> cut_axis(const Shape& whole, const Shape& part);

class ShardShapes {
 public:
  /// `is_shared`: is the value the same on each shard? Borrows the graph, before its batch is cut.
  ShardShapes(const ir::Graph& graph, std::function<bool(ir::ValueId)> is_shared);

  /// The rows of the whole batch.
  int64_t batch() const { return batch_; }
  /// False if the extent is not a multiple of the number of shards.
  bool cut(Shape& shape, int axis) const;
  /// Extents of the result, cut along `axis`, and of what is read of the first operand.
  void cut_attributes(ir::Node& node, int axis) const;

  /// What the op makes of such operands; nothing where it refuses them.
  std::vector<ops::Result> infer(const ops::OpSpec& op, std::vector<ops::Operand> operands,
                                 const ir::Attributes& attributes, int64_t batch) const;
  /// Cuts shapes of operands that all shards share until the node, whose attributes are a shard's,
  /// makes `expected` of them. False where it does not.
  bool fit(const ir::Node& node, const std::vector<ir::Value>& expected,
           std::vector<Shape>& shapes) const;
  std::vector<Shape> shapes_of_operands(const ir::Node& node) const;

  /// The node that makes a shared value anew, cut along an axis, the value that it makes, and the
  /// shapes of its operands. Nothing where that needs a slice of the value itself.
  struct Remade {
    ir::Node node;
    ir::Value value;
    std::vector<Shape> shapes;
  };
  std::optional<Remade> remake(ir::ValueId value, int axis) const;

 private:
  bool makes(const ir::Node& node, const std::vector<Shape>& shapes,
             const std::vector<ir::Value>& expected) const;
  bool fit(const ir::Node& node, const std::vector<ir::Value>& expected, std::vector<Shape>& shapes,
           int& tries, size_t first) const;
  bool keeps_rows(const ir::Node& maker, const std::vector<Shape>& shapes, int axis) const;

  const ir::Graph& graph_;
  const std::function<bool(ir::ValueId)> is_shared_;
  const int64_t batch_;
};

}  // namespace flow::passes
