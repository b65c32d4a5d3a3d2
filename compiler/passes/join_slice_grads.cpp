// The gradient of a tensor that slices cut into parts is the parts' gradients, one beside another:
// a concat or a stack of them, instead of a sum of as many tensors of the whole's size, each zero
// but for its part.
#include <algorithm>
#include <optional>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/core/known.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using Integers = std::vector<int64_t>;
/// The slice_grads that a sum adds up.
using Parts = std::vector<const ir::Node*>;

const Integers& integers(const ir::Node& part, std::string_view attribute) {
  return part.attributes.get<Integers>(attribute);
}

/// The axis along which the parts are, once sorted, all of their sum; none where there is no such.
std::optional<size_t> sort_along_axis(Parts& parts) {
  const Integers& whole = integers(*parts[0], "input_shape");
  const Integers& first = integers(*parts[0], "counts");
  const auto axis = static_cast<size_t>(std::ranges::mismatch(first, whole).in1 - first.begin());
  if (axis == whole.size()) return {};
  std::ranges::sort(parts, {},
                    [&](const ir::Node* part) { return integers(*part, "starts")[axis]; });
  Integers starts(whole.size(), 0), counts = whole;
  const Integers steps(whole.size(), 1);
  for (const ir::Node* part : parts) {
    counts[axis] = integers(*part, "counts")[axis];
    if (integers(*part, "starts") != starts || integers(*part, "steps") != steps ||
        integers(*part, "counts") != counts)
      return {};
    starts[axis] += counts[axis];
  }
  return starts[axis] == whole[axis] ? std::optional(axis) : std::nullopt;
}

class Joiner {
 public:
  Joiner(ir::Graph& graph, Diags& diags)
      : graph_(graph),
        builder_(graph, diags),
        reads_(main_reads(graph)),
        covered_(graph.values.size()) {}

  void run() {
    const size_t count = graph_.nodes.size();
    for (size_t i = 0; i < count; ++i) {
      const ir::Node& node = graph_.nodes[i];
      int64_t& covered = covered_[node.results[0].index()];
      if (node.per_shard) continue;
      if (node.op == ops::kSliceGrad) covered = Shape(integers(node, "counts")).elements();
      if (node.op != ops::kAdd) continue;
      covered = covered_by(node);
      const bool whole = covered > 0 && covered == graph_[node.results[0]].shape.elements();
      if (whole && !node.probe && join(i)) covered = 0;
    }
  }

 private:
  /// How many elements the slice_grads have that the sum adds up; 0 where it adds up something else
  /// too, or what else is read.
  int64_t covered_by(const ir::Node& sum) const {
    const Shape& whole = graph_[sum.results[0]].shape;
    int64_t covered = 0;
    for (const ValueId operand : sum.operands) {
      const ir::Node* node = graph_.producer_of(operand);
      const int64_t part = covered_[operand.index()];
      if (part == 0 || node->device != sum.device || reads_[operand.index()] != 1 ||
          graph_[operand].shape != whole)
        return 0;
      covered += part;
    }
    return covered;
  }

  /// REQUIRES: covered_by(sum) > 0. A loop: thousands of sums can be one chain.
  Parts parts_of(const ir::Node& sum) const {
    Parts parts;
    std::vector<const ir::Node*> open{&sum};
    while (!open.empty()) {
      const ir::Node* node = open.back();
      open.pop_back();
      if (node->op == ops::kSliceGrad)
        parts.push_back(node);
      else
        for (const ValueId operand : node->operands) open.push_back(graph_.producer_of(operand));
    }
    return parts;
  }

  /// The op that joins the parts' gradients along the axis: stack where they have it no more.
  const char* joining_op(const Parts& parts, size_t axis) const {
    const auto all_have = [&](bool with_axis) {
      return std::ranges::all_of(parts, [&](const ir::Node* part) {
        Integers extents = integers(*part, "counts");
        if (!with_axis) extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
        return graph_[part->operands[0]].shape.extents() == extents;
      });
    };
    return all_have(true) ? "concat" : all_have(false) ? "stack" : nullptr;
  }

  /// False where the parts overlap, or are not side by side.
  bool join(size_t index) {
    const ir::Node sum = graph_.nodes[index];
    Parts parts = parts_of(sum);
    const auto axis = sort_along_axis(parts);
    const char* op = axis ? joining_op(parts, *axis) : nullptr;
    if (!op) return false;
    std::vector<ValueId> gradients;
    for (const ir::Node* part : parts) gradients.push_back(part->operands[0]);
    const ValueId joined = builder_.add(op, sum.name, std::move(gradients),
                                        {{"axis", static_cast<int64_t>(*axis)}}, sum.span);
    // In a batch of one, rows can be seen along several axes, by each op along another.
    if (graph_[joined].batch_axis != graph_[sum.results[0]].batch_axis) return false;
    const ir::Node made = graph_.nodes.back();
    ir::Node& node = graph_.nodes[index];
    node.op = made.op;
    node.operands = made.operands;
    node.attributes = made.attributes;
    return true;
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  const std::vector<int> reads_;
  /// By ValueId: what covered_by says of the sum, so that only those parts are sorted that may be
  /// all of the whole; of a slice_grad, its own elements.
  std::vector<int64_t> covered_;
};

}  // namespace

void join_slice_grads(ir::Graph& graph, Context& context, Diags& diags) {
  Joiner(graph, diags).run();
  // The slices' gradients, which are dead or, where they are watched, probes; drafts of the
  // builder.
  remove_dead(graph, context, diags);
}

}  // namespace flow::passes
