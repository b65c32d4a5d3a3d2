// Orders the nodes of a loop and determines where its states are written.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"

namespace flow::passes {
namespace {

using ir::LoopPart;
using ir::ValueId;

bool reads(const ir::Node& node, ValueId value) {
  const std::vector<ValueId> read = reads_of(node);
  return std::ranges::find(read, value) != read.end();
}

/// Returns true if the op computes images, whose memory layout a backend may change.
bool has_images(const ir::Node& node) {
  const auto is_image = [](const auto& spec) { return spec.images != ops::Images::kNone; };
  return std::ranges::any_of(node.op->operands, is_image) ||
         std::ranges::any_of(node.op->results, is_image);
}

class LoopOrder {
 public:
  LoopOrder(ir::Graph& graph, Diags& diags)
      : graph_(graph),
        builder_(graph, diags),
        has_images_(std::ranges::any_of(graph.nodes, has_images)) {}

  void run() {
    find_parts();
    sort();
    keep_states();
    for (ir::State& state : graph_.loop->states) {
      set(state, state.first, LoopPart::kBefore);
      set(state, state.updated, LoopPart::kPass);
    }
    sort();
  }

 private:
  /// Assigns the nodes to the parts of the loop. Nodes whose results do not change from pass to
  /// pass run once. A draw by position uses the number of the pass if its position is the same in
  /// all passes.
  void find_parts() {
    const std::vector<bool> varies = values_of_passes(graph_);
    for (ir::Node& node : graph_.nodes) {
      if (!varies[node.results[0].index()]) continue;
      node.loop_part = LoopPart::kPass;
      if (node.op->draws_by_position && node.operands.size() > 1 &&
          !varies[node.operands[1].index()])
        node.attributes.set("by_pass", true);
    }
  }

  void sort() {
    std::vector<ir::Node> nodes = std::move(graph_.nodes);
    std::ranges::stable_sort(nodes, {}, &ir::Node::loop_part);
    graph_.set_nodes(std::move(nodes));
  }

  /// Copies a state that is itself the next value of a state, before any state is overwritten.
  void keep_states() {
    for (ir::State& state : graph_.loop->states) {
      if (!graph_.loop->state_of(state.updated)) continue;
      state.updated = copy(state, state.updated, "before", LoopPart::kPass);
      std::vector<ir::Node> nodes = std::move(graph_.nodes);
      const auto first = std::ranges::find(nodes, LoopPart::kPass, &ir::Node::loop_part);
      std::rotate(first, nodes.end() - 1, nodes.end());
      graph_.set_nodes(std::move(nodes));
    }
  }

  /// Writes `value` to the state where it is computed if possible, or else adds a copy at the end
  /// of the part.
  void set(const ir::State& state, ValueId& value, LoopPart part) {
    if (!may_be_written(state, value, part))
      value = copy(state, value, part == LoopPart::kBefore ? "first" : "next", part);
    written_.insert(value);
  }

  bool may_be_written(const ir::State& state, ValueId value, LoopPart part) const {
    const ir::Node* maker = graph_.producer_of(value);
    if (!maker || maker->loop_part != part || maker->op->view || maker->probe ||
        maker->results[0] != value || written_.contains(value))
      return false;
    if (has_images_ && graph_[value].shape.rank() == 4) return false;
    return part == LoopPart::kBefore ? is_read_in(value, part) : may_overwrite(*maker, state.value);
  }

  /// Returns true if only nodes of that part read the value.
  bool is_read_in(ValueId value, LoopPart part) const {
    return std::ranges::none_of(graph_.nodes, [&](const ir::Node& node) {
      return node.loop_part != part && reads(node, value);
    });
  }

  /// Returns true if no later node reads the state and the node can work in place.
  bool may_overwrite(const ir::Node& maker, ValueId state) const {
    for (size_t i = 0; i < maker.operands.size(); ++i)
      if (maker.operands[i] == state && !maker.op->may_overwrite(i)) return false;
    for (const ir::EpilogueOp& fused : maker.epilogue)
      if (std::ranges::find(fused.operands, state) != fused.operands.end()) return false;
    for (const ir::Node* node = &maker + 1; node != graph_.nodes.data() + graph_.nodes.size();
         ++node)
      if (node->loop_part == LoopPart::kPass && reads(*node, state)) return false;
    return true;
  }

  ValueId copy(const ir::State& state, ValueId value, const char* what, LoopPart part) {
    const ir::Value& copied = graph_[value];
    const Span span = graph_[state.value].span;
    const ValueId made = builder_.add("reshape", fmt::format("{}:{}", state.name, what), {value},
                                      {{"shape", copied.shape.extents()}}, span);
    graph_.nodes.back().loop_part = part;
    return made;
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  const bool has_images_;
  std::set<ValueId> written_;  // values that share the memory of a state
};

}  // namespace

void order_loop(ir::Graph& graph, Context&, Diags& diags) {
  if (!graph.loop) return;
  const auto elsewhere = std::ranges::find_if(
      graph.nodes, [&](const ir::Node& node) { return node.device != graph.device; });
  if (elsewhere == graph.nodes.end()) return LoopOrder(graph, diags).run();
  diags
      .error(Diagnosis::kLoop, elsewhere->span,
             fmt::format("`{}` is on another device than the loop; expected one device",
                         elsewhere->name))
      .with_hint("remove `placement` from the entry, or set that of the job");
}

}  // namespace flow::passes
