// Adds copies between devices to a graph that is placed on two devices. Each value that a node of
// the other device reads is copied there once, as soon as it is made.
#include <algorithm>
#include <optional>

#include "compiler/ir/builder.h"
#include "compiler/passes/passes.h"
#include "ops/core/spec.h"

namespace flow::passes {
namespace {

using ir::ValueId;
using plan::DeviceKind;

/// Returns the device of all nodes other than probes, or nothing if they are on different devices.
std::optional<DeviceKind> main_device(const ir::Graph& graph) {
  std::optional<DeviceKind> found;
  for (const ir::Node& node : graph.nodes) {
    if (node.probe) continue;
    if (found && *found != node.device) return {};
    found = node.device;
  }
  return found;
}

class Placement {
 public:
  Placement(ir::Graph& graph, Diags& diags)
      : graph_(graph),
        builder_(graph, diags),
        needs_(graph.values.size()),
        copies_(graph.values.size()) {}

  void run() {
    place_statistics();
    place_inputs();
    find_needs();
    add_copies();
    read_copies();
  }

 private:
  /// The kind of the nodes that read a value on the device that does not store it.
  enum class Need { kNone, kProbe, kMain };

  /// Places the updates of moving statistics on the device that stores the statistics, regardless
  /// of the device of the entry whose batch updates them.
  void place_statistics() {
    for (ir::Node& node : graph_.nodes) {
      if (!node.op->moves_statistics()) continue;
      node.device = graph_[node.operands[*node.op->result(0).moves]].device;
      for (const ValueId result : node.results) graph_[result].device = node.device;
    }
  }

  /// Places an input on the device that reads it. An input that both devices read is placed on the
  /// CPU, where it is made.
  void place_inputs() {
    std::vector<Need> on_cpu(graph_.values.size()), on_gpu(graph_.values.size());
    for (const ir::Node& node : graph_.nodes)
      for (const ValueId read : reads_of(node)) {
        Need& need = (node.device == DeviceKind::kCpu ? on_cpu : on_gpu)[read.index()];
        need = std::max(need, node.probe ? Need::kProbe : Need::kMain);
      }
    for (const ValueId input : graph_.inputs) {
      const Need cpu = on_cpu[input.index()], gpu = on_gpu[input.index()];
      if (cpu == Need::kNone && gpu == Need::kNone) continue;
      graph_[input].device = cpu >= gpu ? DeviceKind::kCpu : DeviceKind::kGpu;
    }
  }

  void find_needs() {
    for (const ir::Node& node : graph_.nodes)
      for (const ValueId read : reads_of(node))
        if (graph_[read].device != node.device)
          needs_[read.index()] =
              std::max(needs_[read.index()], node.probe ? Need::kProbe : Need::kMain);
  }

  /// Places each copy right after the node that makes the value, not before its first reader, so
  /// that hooks cannot change the position of a copy.
  void add_copies() {
    for (const ValueId input : graph_.inputs) copy(input, 0);
    for (const ir::Variable& variable : graph_.variables) copy(variable.value, 0);
    const size_t old = graph_.nodes.size() - before_.size();
    for (size_t i = 0; i < old; ++i)
      for (const ValueId made : made_by(graph_.nodes[i])) copy(made, i + 1);
    graph_.move_last(before_);
    for (const ir::Node& node : graph_.nodes)
      if (node.op->between_devices && !node.once)
        graph_[node.results[0]].combine = graph_[node.operands[0]].combine;
  }

  /// Returns all values that a node makes, including the intermediate values of a fused node, which
  /// a probe may read.
  static std::vector<ValueId> made_by(const ir::Node& node) {
    std::vector<ValueId> made;
    for (const ir::EpilogueOp& fused : node.epilogue) made.push_back(fused.replaced);
    made.insert(made.end(), node.results.begin(), node.results.end());
    return made;
  }

  /// Copies the value to the other device if it is needed there. `before` is the node that the copy
  /// is placed before.
  void copy(ValueId value, size_t before) {
    const Need need = needs_[value.index()];
    if (need == Need::kNone) return;
    const ir::Value given = graph_[value];
    const DeviceKind to = other(given.device);
    builder_.place(to, graph_.is_own(value));
    copies_[value.index()] = builder_.add(
        "copy", given.name + (to == DeviceKind::kCpu ? ":cpu" : ":gpu"), {value}, {}, given.span);
    graph_.nodes.back().probe = need == Need::kProbe;
    before_.push_back(before);
  }

  void read_copies() {
    for (ir::Node& node : graph_.nodes) {
      if (node.op->between_devices) continue;
      const auto read = [&](ValueId& id) {
        if (graph_[id].device != node.device) id = copies_[id.index()];
      };
      std::ranges::for_each(node.operands, read);
      for (ir::EpilogueOp& fused : node.epilogue) std::ranges::for_each(fused.operands, read);
    }
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  std::vector<Need> needs_;      // indexed by ValueId
  std::vector<ValueId> copies_;  // indexed by ValueId: the copy on the other device
  std::vector<size_t> before_;   // for each copy, the node that it is placed before
};

}  // namespace

void place_devices(ir::Graph& graph, Context&, Diags& diags) {
  graph.device = main_device(graph).value_or(graph.device);
  const auto is_here = [&](const ir::Node& node) { return node.device == graph.device; };
  if (!std::ranges::all_of(graph.nodes, is_here)) return Placement(graph, diags).run();
  for (ir::Value& value : graph.values) value.device = graph.device;
}

}  // namespace flow::passes
