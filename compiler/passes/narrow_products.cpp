// Mixed precision: products and convolutions read their operands rounded to 16 bits, each value
// rounded once; all else is as it was.
//
// Rounding keeps order and zeros, so what only moves or picks numbers (a pool, a reshape, the
// gradients of a pool and of the rectifier) may stand behind it as well as before. Where a product
// alone reads the result it does, so that numbers travel in 16 bits from product to product.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "ops/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;

bool is_product(const ir::Node& node) {
  return node.op->name == "matmul" || node.op->name.starts_with("convolution");
}

class Narrowing {
 public:
  Narrowing(ir::Graph& graph, DType narrow, Diags& diags)
      : graph_(graph), narrow_(narrow), builder_(graph, diags), old_(graph.nodes.size()) {}

  void run() {
    find_readers();
    narrow_products(false);
    while (raise_casts()) {
    }
    narrow_products(true);  // taps take part in no decision
    place();
  }

 private:
  /// A cast that this pass has added.
  struct Cast {
    size_t node;
    size_t before;        // the node that it is placed before
    ValueId rounded;      // its result
    bool raised = false;  // what made its operand makes its result, from which it is widened
  };

  /// Of the main path, by ValueId.
  void find_readers() {
    readers_.resize(graph_.values.size());
    casts_of_.resize(graph_.values.size());
    for (size_t i = 0; i < old_; ++i)
      if (!graph_.nodes[i].tap)
        for (const ValueId operand : graph_.nodes[i].operands)
          readers_[operand.index()].push_back(i);
  }

  void narrow_products(bool taps) {
    for (size_t i = 0; i < old_; ++i)
      if (is_product(graph_.nodes[i]) && graph_.nodes[i].tap == taps)
        for (size_t operand = 0; operand < 2; ++operand) narrow_operand(i, operand);
  }

  void narrow_operand(size_t reader, size_t operand) {
    const ValueId value = graph_.nodes[reader].operands[operand];
    std::erase(readers_[value.index()], reader);
    const ValueId rounded = narrowed(value, reader);
    graph_.nodes[reader].operands[operand] = rounded;
  }

  /// The value in 16 bits, for a reader.
  ValueId narrowed(ValueId value, size_t reader) {
    std::optional<size_t>& found = casts_of_[value.index()];
    if (found) {
      Cast& cast = casts_[*found];
      if (!cast.raised) cast.before = std::min(cast.before, reader);
      return cast.rounded;
    }
    found = casts_.size();
    const std::string name = fmt::format("{}:{}", graph_[value].name, name_of(narrow_));
    const size_t node = graph_.nodes.size();
    builder_.place_on(graph_.nodes[reader].device);
    casts_.push_back(
        {node, reader,
         builder_.add("cast", name, {value}, {{"dtype", narrow_}}, graph_.nodes[reader].span)});
    return casts_.back().rounded;
  }

  /// Raises casts over what makes their operands, the last first. False when there was none.
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
             return graph_.nodes[reader].op->name == "bias_add_grad";
           });
  }

  /// Does the node give of rounded operands what rounding gives of its result?
  bool passes_rounded(const ir::Node& node, ValueId result) const {
    if (node.results[0] != result) return false;
    const std::string_view op = node.op->name;
    if (op == "max_pool2d_grad") return !windows_overlap(node);
    // That the rectified value is there in 16 bits saves a cast; else there would be one more.
    if (op == "relu_grad") return casts_of_[node.operands[1].index()].has_value();
    return op == "reshape" || op == "transpose" || op == "max_pool2d";
  }

  /// Gradients that meet in an element are added.
  static bool windows_overlap(const ir::Node& node) {
    const auto& size = node.attributes.get<std::vector<int64_t>>("ksize");
    const auto& strides = node.attributes.get<std::vector<int64_t>>("strides");
    return size[0] > strides[0] || size[1] > strides[1];
  }

  /// The node that made the cast's operand makes its result instead, of rounded operands; who reads
  /// what it made before (a hook) has it widened.
  void raise(size_t index) {
    const ValueId value = graph_.nodes[casts_[index].node].operands[0];
    const ValueId rounded = casts_[index].rounded;
    const size_t producer = graph_[value].producer.index();
    const size_t factors = graph_.nodes[producer].op->name == "relu_grad" ? 2 : 1;
    for (size_t operand = 0; operand < factors; ++operand) narrow_operand(producer, operand);
    for (const size_t reader : readers_[value.index()]) graph_.nodes[reader].operands[0] = rounded;
    readers_[value.index()].clear();
    graph_.nodes[producer].results[0] = rounded;
    graph_[rounded].producer = graph_[value].producer;

    ir::Node& widening = graph_.nodes[casts_[index].node];
    widening.name = graph_[value].name + ":" + std::string(name_of(graph_.number));
    widening.operands = {rounded};
    widening.results = {value};
    widening.attributes.set("dtype", graph_.number);
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
  const DType narrow_;
  ir::Builder builder_;
  const size_t old_;                             // nodes before this one were there
  std::vector<std::vector<size_t>> readers_;     // by ValueId: nodes of the main path
  std::vector<std::optional<size_t>> casts_of_;  // by ValueId: its cast
  std::vector<Cast> casts_;
};

}  // namespace

void narrow_products(ir::Graph& graph, Context& context, Diags& diags) {
  if (!context.narrow) return;
  Narrowing(graph, *context.narrow, diags).run();
  remove_dead(graph, context, diags);  // widened results that no hook reads
}

}  // namespace flow::passes
