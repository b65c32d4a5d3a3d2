// Replaces sums of gradients by one operation.
//
// If slices cut a tensor into parts, its gradient consists of the gradients of the parts. One
// concat or stack of them replaces a sum of tensors that each have the size of the whole and are
// zero outside of one part.
//
// If several products read one weight, as the cells of an RNN do, its gradient is a sum of as many
// matrices. One product of the concatenated operands replaces this sum:
//   dy0^T x0 + dy1^T x1 + ... = [dy0; dy1; ...]^T [x0; x1; ...].
// The gradient of the bias after these products becomes one sum over the same concatenated rows.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "ops/core/known.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using Integers = std::vector<int64_t>;
using Values = std::vector<ValueId>;
/// The slice_grads that a sum adds up.
using Parts = std::vector<const ir::Node*>;

const Integers& integers(const ir::Node& part, std::string_view attribute) {
  return part.attributes.get<Integers>(attribute);
}

/// Sorts the parts along an axis. Returns the axis along which the sorted parts cover the whole
/// sum, or nothing if there is no such axis.
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
  /// Returns the number of elements of the slice_grads that the sum adds up. Returns 0 if the sum
  /// also adds up other values, or if another node reads one of the operands.
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

  /// Returns the slice_grads of the sum. Uses a loop instead of recursion, because thousands of
  /// sums can form one chain. REQUIRES: covered_by(sum) > 0.
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

  /// Returns the op that joins the gradients of the parts along the axis: "stack" if they do not
  /// have this axis any more, or null if neither op fits.
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

  /// Replaces the sum by one op. Returns false if the parts overlap or do not cover the sum along
  /// one axis.
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
    // In a batch of one row, an extent of 1 may be taken for the batch, so the two ops can infer
    // different batch axes.
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
  /// Indexed by ValueId: the result of covered_by() for a sum, and the number of its own elements
  /// for a slice_grad. Only sums whose parts have as many elements as the whole are sorted.
  std::vector<int64_t> covered_;
};

/// A tree of additions: the index of its last addition, and the nodes whose results it adds up, in
/// execution order.
struct Sum {
  size_t last;
  std::vector<size_t> parts;
};

class RowsJoiner {
 public:
  RowsJoiner(ir::Graph& graph, Diags& diags)
      : graph_(graph), builder_(graph, diags), reads_(main_reads(graph)) {}

  bool run() {
    const std::vector<Sum> sums = find_sums();
    std::set<Values> rows;  // operands that joined products concatenate
    for (const Sum& sum : sums)
      if (pays(sum)) rows.insert(operands(sum, 0));
    for (const Sum& sum : sums)
      if (pays(sum) || (!is_of_products(sum) && rows.contains(operands(sum, 0)))) join(sum);
    graph_.move_last(before_);
    return !before_.empty();
  }

 private:
  /// Returns true if the node sums over the rows of matrices. No operand may be a variable, because
  /// the joined op reads the operands later, when a variable may already have been updated.
  bool is_part(const ir::Node& node) const {
    const auto is_matrix_of_rows = [this](ValueId operand) {
      return graph_[operand].shape.rank() == 2 && graph_[operand].batch_axis <= 0 &&
             !graph_.variable_of(operand);
    };
    if (node.probe || !std::ranges::all_of(node.operands, is_matrix_of_rows)) return false;
    if (node.op->gradient_of == ops::Epilogue::kBias)
      return node.attributes.get<int64_t>("axis") == 1;
    return node.op == ops::kMatmul && node.attributes.get<bool>("transpose_a") &&
           !node.attributes.get<bool>("transpose_b");
  }

  /// Returns the sums that are not part of another sum.
  std::vector<Sum> find_sums() const {
    std::vector<const ops::OpSpec*> added(
        // Indexed by ValueId: the op that all parts of the value have in common.
        graph_.values.size());
    std::vector<bool> outermost(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ir::Node& node = graph_.nodes[i];
      const ValueId result = node.results[0];
      if (is_part(node)) added[result.index()] = node.op;
      if (node.op != ops::kAdd || node.probe) continue;
      const ops::OpSpec* op = added[node.operands[0].index()];
      const bool all = op && std::ranges::all_of(node.operands, [&](ValueId operand) {
                         return added[operand.index()] == op && reads_[operand.index()] == 1 &&
                                graph_[operand].shape == graph_[result].shape &&
                                graph_[operand].device == node.device;
                       });
      if (!all) continue;
      added[result.index()] = op;
      outermost[i] = true;
      for (const ValueId operand : node.operands)
        outermost[graph_[operand].producer.index()] = false;
    }
    std::vector<Sum> sums;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (outermost[i]) sums.push_back({i, parts_of(i)});
    return sums;
  }

  /// Returns the parts of a sum. Uses a loop instead of recursion, because thousands of sums can
  /// form one chain.
  std::vector<size_t> parts_of(size_t sum) const {
    std::vector<size_t> parts, open{sum};
    while (!open.empty()) {
      const size_t i = open.back();
      open.pop_back();
      if (is_part(graph_.nodes[i]))
        parts.push_back(i);
      else
        for (const ValueId operand : graph_.nodes[i].operands)
          open.push_back(graph_[operand].producer.index());
    }
    std::ranges::sort(parts);
    return parts;
  }

  bool is_of_products(const Sum& sum) const {
    return graph_.nodes[sum.parts[0]].op == ops::kMatmul;
  }

  /// Returns operand i of each part.
  Values operands(const Sum& sum, size_t i) const {
    Values values;
    for (const size_t part : sum.parts) values.push_back(graph_.nodes[part].operands[i]);
    return values;
  }

  /// Returns true if concatenating the operands copies at most as many elements as adding up the
  /// products writes.
  bool pays(const Sum& sum) const {
    if (!is_of_products(sum)) return false;
    // A double, because the counts of a very large graph can exceed 64 bits.
    double copied = 0;
    for (const size_t part : sum.parts)
      for (const ValueId operand : graph_.nodes[part].operands)
        copied += static_cast<double>(graph_[operand].shape.elements());
    const Shape& product = graph_[graph_.nodes[sum.last].results[0]].shape;
    return copied <=
           static_cast<double>(sum.parts.size() - 1) * static_cast<double>(product.elements());
  }

  void join(const Sum& sum) {
    const ir::Node part = graph_.nodes[sum.parts[0]];
    Values joined;
    for (size_t i = 0; i < part.operands.size(); ++i)
      joined.push_back(below_one_another(operands(sum, i), sum.last));
    ir::Node& node = graph_.nodes[sum.last];
    node.op = part.op;
    node.operands = joined;
    node.attributes = part.attributes;
  }

  /// Returns the concatenated values. The concat is placed before the first sum that reads it.
  ValueId below_one_another(const Values& values, size_t before) {
    const auto [at, fresh] = joined_.try_emplace(values);
    if (!fresh) return at->second;
    const ir::Node& sum = graph_.nodes[before];
    builder_.place_on(sum.device);
    before_.push_back(before);
    return at->second =
               builder_.add("concat", sum.name + "/rows", values, {{"axis", int64_t{0}}}, sum.span);
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  const std::vector<int> reads_;
  std::map<Values, ValueId> joined_;
  std::vector<size_t> before_;  // for each added node, the node that it is placed before
};

}  // namespace

void join_slice_grads(ir::Graph& graph, Context& context, Diags& diags) {
  Joiner(graph, diags).run();
  // Drops the gradients of the slices, which are dead now or, if they are watched, probes. Also
  // drops ops that the builder added but that were not used.
  remove_dead(graph, context, diags);
}

void join_shared_grads(ir::Graph& graph, Context& context, Diags& diags) {
  if (graph.shards == 1 && RowsJoiner(graph, diags).run()) remove_dead(graph, context, diags);
}

}  // namespace flow::passes
