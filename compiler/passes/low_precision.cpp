// Adds 16-bit numbers: the rounded operands of products in mixed-precision jobs, and variables that
// are stored in 16 bits.
//
// In mixed precision, products and convolutions read their operands rounded to 16 bits. Each value
// is rounded once, and all other ops stay unchanged. Rounding keeps order and zeros, so an op that
// only moves or picks numbers (a pool, a reshape, the gradients of a pool and of relu) gives the
// same result before and after rounding. If only products read the result of such an op, the
// rounding moves before it, so that the numbers stay in 16 bits from product to product.
//
// For frozen variables in 16 bits, each reader has its own cast right before it. A shared cast
// would keep the widened value in memory from the forward pass to the backward pass.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "ops/core/known.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;

class ProductRounding {
 public:
  ProductRounding(ir::Graph& graph, DType low_precision, Diags& diags)
      : graph_(graph),
        low_precision_(low_precision),
        builder_(graph, diags),
        old_(graph.nodes.size()) {}

  void run() {
    find_readers();
    round_products(false);
    while (raise_casts()) {
    }
    round_products(true);  // probes do not influence the decisions above
    place();
  }

 private:
  /// A cast that this pass has added.
  struct Cast {
    size_t node;
    size_t before;    // the node that the cast is placed before
    ValueId rounded;  // the result of the cast
    // The producer of the operand makes the rounded value itself, and the cast widens it again.
    bool raised = false;
  };

  /// Finds the readers of each value on the main path.
  void find_readers() {
    readers_.resize(graph_.values.size());
    casts_of_.resize(graph_.values.size());
    for (size_t i = 0; i < old_; ++i)
      if (!graph_.nodes[i].probe)
        for (const ValueId operand : graph_.nodes[i].operands)
          readers_[operand.index()].push_back(i);
  }

  /// Rounds the operands of products. Skips products that run once: they read the combined results
  /// of all shards, which must not be rounded part by part.
  void round_products(bool probes) {
    for (size_t i = 0; i < old_; ++i)
      if (const ir::Node& node = graph_.nodes[i];
          node.op->product && node.probe == probes && !node.once)
        for (size_t operand = 0; operand < 2; ++operand) round_operand(i, operand);
  }

  void round_operand(size_t reader, size_t operand) {
    const ValueId value = graph_.nodes[reader].operands[operand];
    std::erase(readers_[value.index()], reader);
    const ValueId rounded = rounded_value(value, reader);
    graph_.nodes[reader].operands[operand] = rounded;
  }

  /// Returns the value rounded to 16 bits, for use by `reader`.
  ValueId rounded_value(ValueId value, size_t reader) {
    std::optional<size_t>& found = casts_of_[value.index()];
    if (found) {
      Cast& cast = casts_[*found];
      if (!cast.raised) cast.before = std::min(cast.before, reader);
      return cast.rounded;
    }
    found = casts_.size();
    const std::string name = fmt::format("{}:{}", graph_[value].name, name_of(low_precision_));
    const size_t node = graph_.nodes.size();
    builder_.place(graph_.nodes[reader].device, graph_.is_own(value));
    casts_.push_back({node, reader,
                      builder_.add("cast", name, {value}, {{"dtype", low_precision_}},
                                   graph_.nodes[reader].span)});
    return casts_.back().rounded;
  }

  /// Moves casts before the producers of their operands, starting with the last cast. Returns false
  /// if no cast could move.
  bool raise_casts() {
    bool changed = false;
    for (size_t i = casts_.size(); i-- > 0;)
      if (can_be_raised(casts_[i])) {
        raise(i);
        changed = true;
      }
    return changed;
  }

  bool can_be_raised(const Cast& cast) const {
    const ValueId value = graph_.nodes[cast.node].operands[0];
    const ir::Node* producer = graph_.producer_of(value);
    return !cast.raised && producer && producer->device == graph_.nodes[cast.node].device &&
           passes_rounded(*producer, value) &&
           std::ranges::find(graph_.results, value) == graph_.results.end() &&
           std::ranges::all_of(readers_[value.index()], [this](size_t reader) {
             return graph_.nodes[reader].op->gradient_of == ops::Epilogue::kBias;
           });
  }

  /// Returns true if rounding the operands of the node gives the same result as rounding its
  /// result.
  bool passes_rounded(const ir::Node& node, ValueId result) const {
    const ops::RoundsRule rounds = node.op->rounds_operands;
    if (node.results[0] != result || !rounds || !rounds(node.attributes)) return false;
    // Moving the cast only pays off if the other operands are rounded already; otherwise it would
    // add a cast.
    for (size_t i = 1; i < node.operands.size(); ++i)
      if (node.op->operand(i).low_precision && !casts_of_[node.operands[i].index()]) return false;
    return true;
  }

  /// Makes the producer of the cast's operand compute the rounded value from rounded operands. The
  /// cast then widens this value for the remaining readers of the original one, such as hooks.
  void raise(size_t index) {
    const ValueId value = graph_.nodes[casts_[index].node].operands[0];
    const ValueId rounded = casts_[index].rounded;
    const size_t producer = graph_[value].producer.index();
    for (size_t operand = 0; operand < graph_.nodes[producer].operands.size(); ++operand)
      if (operand == 0 || graph_.nodes[producer].op->operand(operand).low_precision)
        round_operand(producer, operand);
    for (const size_t reader : readers_[value.index()]) graph_.nodes[reader].operands[0] = rounded;
    readers_[value.index()].clear();
    graph_.nodes[producer].results[0] = rounded;
    graph_[rounded].producer = graph_[value].producer;

    ir::Node& widening = graph_.nodes[casts_[index].node];
    widening.name = graph_[value].name + ":" + std::string(name_of(graph_.compute_dtype));
    widening.operands = {rounded};
    widening.results = {value};
    widening.attributes.set("dtype", graph_.compute_dtype);
    graph_[value].producer = ir::NodeId(casts_[index].node);
    casts_[index].raised = true;
    casts_[index].before = producer + 1;
  }

  void place() {
    std::vector<size_t> before;
    for (const Cast& cast : casts_) before.push_back(cast.before);
    graph_.move_last(before);
  }

  ir::Graph& graph_;
  const DType low_precision_;
  ir::Builder builder_;
  const size_t old_;                             // the number of nodes before this pass
  std::vector<std::vector<size_t>> readers_;     // indexed by ValueId: readers on the main path
  std::vector<std::optional<size_t>> casts_of_;  // indexed by ValueId: the value's cast
  std::vector<Cast> casts_;
};

class Widening {
 public:
  Widening(ir::Graph& graph, Diags& diags)
      : graph_(graph), builder_(graph, diags), same_(graph.values.size()) {}

  void run() {
    for (const ir::Variable& variable : graph_.variables)
      if (variable.stored) graph_[variable.value].dtype = *variable.stored;
    const size_t old = graph_.nodes.size();
    for (size_t i = 0; i < old; ++i) widen_operands(i);
    graph_.move_last(before_);
  }

 private:
  bool is_stored(ValueId id) const {
    const ir::Variable* variable = graph_.variable_of(id);
    return variable && variable->stored;
  }

  /// Returns operand `at` of a node. The operands of epilogue ops follow those of the node itself.
  ValueId& operand(size_t node, size_t at) {
    ir::Node& of = graph_.nodes[node];
    if (at < of.operands.size()) return of.operands[at];
    at -= of.operands.size();
    auto fused = of.epilogue.begin();
    for (; at >= fused->operands.size(); ++fused) at -= fused->operands.size();
    return fused->operands[at];
  }

  void widen_operands(size_t i) {
    const ir::Node& node = graph_.nodes[i];
    if (node.op == ops::kCast && is_stored(node.operands[0])) return note_idle(node);
    if (node.op == ops::kGather && node.epilogue.empty() && is_stored(node.operands[0]))
      return gather(i);
    const size_t operands = reads_of(node).size();
    std::map<int32_t, ValueId> widened;  // a node may read a variable twice
    for (size_t at = 0; at < operands; ++at) {
      const ValueId value = operand(i, at);
      if (is_stored(value)) {
        const auto [found, fresh] = widened.try_emplace(value.value);
        if (fresh) found->second = add_cast(value, graph_.compute_dtype, i, i);
        operand(i, at) = found->second;
      } else if (value.index() < same_.size() && same_[value.index()].valid()) {
        operand(i, at) = same_[value.index()];
      }
    }
  }

  /// Records a cast to the dtype that the variable already has. Its readers then read the variable
  /// instead.
  void note_idle(const ir::Node& cast) {
    const ValueId made = cast.results[0], variable = cast.operands[0];
    const auto lacks = [made](const std::vector<ValueId>& ids) {
      return std::ranges::find(ids, made) == ids.end();
    };
    if (graph_[made].dtype == graph_[variable].dtype && lacks(graph_.results) &&
        lacks(graph_.watched))
      same_[made.index()] = variable;
  }

  /// Gathers slices in 16 bits and widens them afterwards, because they have fewer elements than
  /// the variable.
  void gather(size_t i) {
    const ValueId made = graph_.nodes[i].results[0], variable = graph_.nodes[i].operands[0];
    ir::Value stored = graph_[made];
    const DType dtype = stored.dtype;
    stored.dtype = graph_[variable].dtype;
    stored.name += ":" + std::string(name_of(stored.dtype));
    const ValueId gathered(graph_.values.size());
    graph_.values.push_back(std::move(stored));
    graph_.nodes[i].results[0] = gathered;
    const ValueId widened = add_cast(gathered, dtype, i, i + 1);
    ir::Node& cast = graph_.nodes.back();
    graph_[made].producer = graph_[widened].producer;
    cast.name = graph_[made].name + ":" + std::string(name_of(dtype));
    cast.results[0] = made;
  }

  /// Adds a cast for a value that node i reads or makes, and places it before the node `before`.
  ValueId add_cast(ValueId value, DType dtype, size_t i, size_t before) {
    const ir::Node& node = graph_.nodes[i];
    const bool probe = node.probe;
    builder_.place(node.device, graph_.is_own(value));
    const ValueId made =
        builder_.add("cast", fmt::format("{}:{}", graph_[value].name, name_of(dtype)), {value},
                     {{"dtype", dtype}}, node.span);
    graph_.nodes.back().probe = probe;
    before_.push_back(before);
    return made;
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  std::vector<ValueId> same_;   // indexed by ValueId: the variable that an idle cast returns
  std::vector<size_t> before_;  // for each added cast, the node that it is placed before
};

}  // namespace

void low_precision_products(ir::Graph& graph, Context& context, Diags& diags) {
  if (!context.low_precision) return;
  ProductRounding(graph, *context.low_precision, diags).run();
  remove_dead(graph, context, diags);  // drops widened results that no hook reads
}

void widen_variables(ir::Graph& graph, Context& context, Diags& diags) {
  const auto is_stored = [](const ir::Variable& variable) { return variable.stored.has_value(); };
  if (std::ranges::none_of(graph.variables, is_stored)) return;
  Widening(graph, diags).run();
  remove_dead(graph, context, diags);  // drops idle casts
}

}  // namespace flow::passes
