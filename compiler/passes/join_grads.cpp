// Sums of gradients that are joined to one operation.
//
// The gradient of a tensor that slices cut into parts is the parts' gradients, one next to another:
// a concat or a stack of them, instead of a sum of as many tensors of the whole's size, each zero
// but for its part.
//
// The gradient of a weight that several products read, as the cells of an RNN do, is one product of
// their operands below one another instead of a sum of as many matrices:
//   dy0^T x0 + dy1^T x1 + ... = [dy0; dy1; ...]^T [x0; x1; ...].
// The gradient of the bias after them is one sum over the same rows.
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

/// A tree of adds: the last of them, and the nodes whose results it adds up, in their order.
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
    std::set<Values> rows;  // that the products below have below one another
    for (const Sum& sum : sums)
      if (pays(sum)) rows.insert(operands(sum, 0));
    for (const Sum& sum : sums)
      if (pays(sum) || (!is_of_products(sum) && rows.contains(operands(sum, 0)))) join(sum);
    graph_.move_last(before_);
    return !before_.empty();
  }

 private:
  /// Does it sum over the rows of matrices? They are to be read where the sum is made, before which
  /// a variable may be updated.
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

  /// Those that are no part of another.
  std::vector<Sum> find_sums() const {
    std::vector<const ops::OpSpec*> added(
        graph_.values.size());  // by ValueId: the op of all its parts
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

  /// A loop: thousands of sums can be one chain.
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

  /// Operand i of each part.
  Values operands(const Sum& sum, size_t i) const {
    Values values;
    for (const size_t part : sum.parts) values.push_back(graph_.nodes[part].operands[i]);
    return values;
  }

  /// Are fewer elements copied to lie below one another than the sum of the products writes?
  bool pays(const Sum& sum) const {
    if (!is_of_products(sum)) return false;
    double copied = 0;  // more than 64 bits count, in a graph that no memory holds
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

  /// Made before the first sum that reads it.
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
  std::vector<size_t> before_;  // of each node that is added: where it goes
};

}  // namespace

void join_slice_grads(ir::Graph& graph, Context& context, Diags& diags) {
  Joiner(graph, diags).run();
  // The slices' gradients, which are dead or, where they are watched, probes; drafts of the
  // builder.
  remove_dead(graph, context, diags);
}

void join_shared_grads(ir::Graph& graph, Context& context, Diags& diags) {
  if (graph.shards == 1 && RowsJoiner(graph, diags).run()) remove_dead(graph, context, diags);
}

}  // namespace flow::passes
