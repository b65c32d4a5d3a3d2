// The mean loss, optimizer slots, and the updates of variables.
#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/reads.h"

namespace flow::passes {
namespace {

using ir::ValueId;

class Updates {
 public:
  Updates(ir::Graph& graph, Context& context, Diags& diags)
      : graph_(graph), context_(context), builder_(graph, diags), old_(graph.nodes.size()) {}

  void run() {
    const Training& training = *context_.training;
    add_mean_loss(training.loss);
    const double scale = 1 / static_cast<double>(graph_[training.loss].shape.elements());
    for (const ValueId variable : training.variables)
      if (const ValueId gradient = graph_.gradient_of(variable); gradient.valid())
        add_update(variable, gradient, scale);
    place_early();
  }

 private:
  void add_mean_loss(ValueId loss) {
    context_.mean_loss = graph_[loss].shape.rank() == 0
                             ? loss
                             : builder_.add("reduce_mean", "minimize/mean_loss", {loss}, {},
                                            context_.training->span);
    graph_.results.push_back(context_.mean_loss);
  }

  void add_update(ValueId variable, ValueId gradient, double scale) {
    const Training& training = *context_.training;
    const ir::Value value = graph_[variable];
    const std::string name = value.name + ":update";
    if (training.momentum == 0) {
      set_updated(variable, builder_.add("sgd_update", name, {gradient, variable},
                                         {{"scale", scale}}, value.span));
      return;
    }
    const ValueId slot = builder_.add_variable(value.name + "/momentum", value.dtype, value.shape,
                                               {}, false, true, value.span);
    const ValueId updated = builder_.add(
        "momentum_update", name, {gradient, variable, slot},
        {{"scale", scale}, {"momentum", training.momentum}, {"nesterov", training.nesterov}},
        value.span);
    set_updated(variable, updated);
    set_updated(slot, graph_[graph_[updated].producer].results[1]);
  }

  void set_updated(ValueId variable, ValueId updated) {
    graph_.variables[static_cast<size_t>(graph_.variable_of(variable) - graph_.variables.data())]
        .updated = updated;
  }

  /// Moves each new node up, behind what makes its operands and, for an update writes in place,
  /// behind all other reads of its variables.
  void place_early() {
    const auto last_read = last_reads();
    std::vector<std::vector<ir::Node>> behind(old_ + 1);  // [i]: behind the first i nodes
    for (size_t i = old_; i < graph_.nodes.size(); ++i) {
      ir::Node& node = graph_.nodes[i];
      size_t place = 0;
      for (const ValueId operand : node.operands) {
        const ir::Value& value = graph_[operand];
        place = std::max(place, value.producer.valid() ? value.producer.index() + 1
                                                       : last_read[operand.index()]);
      }
      behind[place].push_back(std::move(node));
    }
    std::vector<ir::Node> placed;
    for (size_t i = 0; i <= old_; ++i) {
      for (ir::Node& node : behind[i]) placed.push_back(std::move(node));
      if (i < old_) placed.push_back(std::move(graph_.nodes[i]));
    }
    graph_.set_nodes(std::move(placed));
  }

  /// By ValueId: how many nodes stand up to and with the last reader.
  std::vector<size_t> last_reads() const {
    std::vector<size_t> last(graph_.values.size());
    for (size_t i = 0; i < old_; ++i)
      for (const ValueId read : reads_of(graph_.nodes[i])) last[read.index()] = i + 1;
    return last;
  }

  ir::Graph& graph_;
  Context& context_;
  ir::Builder builder_;
  const size_t old_;  // nodes before this one were there
};

}  // namespace

void add_updates(ir::Graph& graph, Context& context, Diags& diags) {
  if (context.training) Updates(graph, context, diags).run();
}

}  // namespace flow::passes
