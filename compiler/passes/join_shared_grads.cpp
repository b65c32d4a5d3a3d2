// The gradient of a weight that several products read, as the cells of an RNN do, is one product of
// their operands below one another instead of a sum of as many matrices:
//   dy0^T x0 + dy1^T x1 + ... = [dy0; dy1; ...]^T [x0; x1; ...].
// The gradient of the bias behind them is one sum over the same rows.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"
#include "ops/core/known.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using Values = std::vector<ValueId>;

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

void join_shared_grads(ir::Graph& graph, Context& context, Diags& diags) {
  if (graph.shards == 1 && RowsJoiner(graph, diags).run()) remove_dead(graph, context, diags);
}

}  // namespace flow::passes
