// Lowers a graph to a plan: tensors, steps in order, and probes for watched values inside fused
// steps. Also determines which results may use the memory of their operands.
#include "compiler/lower/lower.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/passes/passes.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/plan.h"

namespace flow {
namespace {

using plan::TensorId;

class Aliases {
 public:
  explicit Aliases(plan::Job& job)
      : job_(job), parent_(job.tensors.size()), last_read_(job.tensors.size(), 0) {
    for (size_t i = 0; i < parent_.size(); ++i) {
      const TensorId alias = job.tensors[i].alias;
      parent_[i] = alias.valid() ? alias.index() : i;
    }
  }

  void run(const ir::Graph& graph, const std::vector<TensorId>& tensor_of) {
    add_replacements();
    add_reshapes();
    find_last_reads();
    for (const auto* outside : {&graph.results, &graph.watched})
      for (const ir::ValueId value : *outside)
        if (const TensorId tensor = tensor_of[value.index()]; tensor.valid())
          last_read_[root(tensor)] = job_.steps.size();
    add_elementwise();
  }

 private:
  /// Returns the tensor whose memory this one uses. Shortens long chains on the way.
  size_t root(TensorId tensor) {
    size_t i = tensor.index();
    for (; parent_[i] != i; i = parent_[i]) parent_[i] = parent_[parent_[i]];
    return i;
  }

  void alias(TensorId result, TensorId of) {
    job_.tensors[result.index()].alias = of;
    parent_[root(result)] = root(of);
  }

  /// A value that replaces the updated value of a variable is written to the memory of that value.
  void add_replacements() {
    for (const plan::Step& step : job_.steps)
      if (const auto old = step.op->result(0).replaces) alias(step.outputs[0], step.inputs[*old]);
  }

  /// Makes reshapes aliases of their operands. A reshape of a variable is excluded, because the
  /// variable is overwritten at the end of a call, when the reshape may still be read. A value that
  /// is written to the state of a loop already has the state as its alias.
  void add_reshapes() {
    for (const plan::Step& step : job_.steps)
      if (step.op->view && !step.probe && !job_.tensors[step.outputs[0].index()].alias.valid() &&
          (job_.loop || job_.tensors[root(step.inputs[0])].role != plan::Role::kVariable))
        alias(step.outputs[0], step.inputs[0]);
  }

  /// Stores, for each root, the index of the last step that reads it.
  void find_last_reads() {
    for (size_t i = 0; i < job_.steps.size(); ++i)
      plan::visit_operands(job_.steps[i], [&](TensorId tensor) { last_read_[root(tensor)] = i; });
  }

  void add_elementwise() {
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      const plan::Step& step = job_.steps[i];
      if (step.probe || !step.op->elementwise || !may_overwrite(step, i)) continue;
      const size_t into = root(step.inputs[0]);
      const size_t result = root(step.outputs[0]);
      alias(step.outputs[0], step.inputs[0]);
      last_read_[into] = std::max(last_read_[into], last_read_[result]);
    }
  }

  bool may_overwrite(const plan::Step& step, size_t index) {
    const TensorId input = step.inputs[0];
    const size_t into = root(input);
    if (job_.tensors[into].role != plan::Role::kResult || last_read_[into] != index) return false;
    if (job_.tensors[step.outputs[0].index()].alias.valid()) return false;
    if (job_.tensors[input.index()].dtype != job_.tensors[step.outputs[0].index()].dtype)
      return false;
    return std::all_of(step.inputs.begin() + 1, step.inputs.end(),
                       [&](TensorId other) { return root(other) != into; });
  }

  plan::Job& job_;
  std::vector<size_t> parent_;  // for each tensor, itself or a tensor closer to its root
  // For each root, the last step that reads it, or steps.size() if it is read from outside.
  std::vector<size_t> last_read_;
};

/// Sets `alias` if a backend may compute in place. This applies to a reshape of any tensor except a
/// variable, and to an elementwise step that is the last one to read its first input. `tensor_of`
/// is indexed by ValueId.
void add_aliases(const ir::Graph& graph, const std::vector<TensorId>& tensor_of, plan::Job& job) {
  Aliases(job).run(graph, tensor_of);
}

using ir::ValueId;

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const Sources& sources, plan::Job& job)
      : graph_(graph),
        sources_(sources),
        job_(job),
        read_(graph.values.size()),
        read_as_whole_(graph.values.size()) {
    lowered_.tensor_of.resize(graph.values.size());
  }

  Lowered run() {
    job_.device = graph_.device;
    find_readers();
    for (const ValueId input : graph_.inputs) tensor(input);
    for (const ir::Variable& variable : graph_.variables)
      job_.variables.push_back(
          {tensor(variable.value), variable.initializer, variable.trainable, variable.slot});
    if (graph_.loop) begin_loop(*graph_.loop);
    for (const ir::Node& node : graph_.nodes) {
      if (graph_.loop) count_loop_steps(node.loop_part);
      if (node.once && !once_) once_ = plan::StepId(job_.steps.size());
      FLOW_CHECK(node.once || !once_, "{} comes after a node that runs once", node.name);
      add_probes(node);
      add_step(node);
    }
    if (graph_.shards > 1)
      job_.sharding = {graph_.shards, once_.value_or(plan::StepId(job_.steps.size()))};
    for (const ir::Variable& variable : graph_.variables)
      if (variable.updated.valid())
        job_.tensors[tensor(variable.updated).index()].alias = tensor(variable.value);
    if (graph_.loop) end_loop(*graph_.loop);
    add_aliases(graph_, lowered_.tensor_of, job_);
    return std::move(lowered_);
  }

 private:
  void begin_loop(const ir::Loop& loop) {
    job_.loop.emplace().passes = loop.passes;
    for (const ir::State& state : loop.states) job_.loop->states.push_back(tensor(state.value));
  }

  /// Sets the first steps of the loop parts. Called before the steps of the next node are added,
  /// and after the last step.
  void count_loop_steps(ir::LoopPart next) {
    const auto begin = [&](plan::StepId& step, ir::LoopPart part) {
      if (!step.valid() && next >= part) step = plan::StepId(job_.steps.size());
    };
    begin(job_.loop->first, ir::LoopPart::kPass);
    begin(job_.loop->end, ir::LoopPart::kAfter);
  }

  /// Makes the values that set a state aliases of the state.
  void end_loop(const ir::Loop& loop) {
    count_loop_steps(ir::LoopPart::kAfter);
    if (loop.until.valid()) job_.loop->until = tensor(loop.until);
    for (const ir::State& state : loop.states)
      for (const ValueId set : {state.first, state.updated})
        job_.tensors[tensor(set).index()].alias = tensor(state.value);
  }

  void find_readers() {
    const auto mark = [this](ValueId value) { read_[value.index()] = true; };
    for (const ir::Node& node : graph_.nodes)
      for (const ValueId value : passes::reads_of(node)) {
        mark(value);
        if (node.once) read_as_whole_[value.index()] = true;
        if (node.probe) watched_.insert(value);
      }
    for (const auto* delivered : {&graph_.results, &graph_.watched})
      for (const ValueId value : *delivered) read_as_whole_[value.index()] = true;
    for (const ValueId value : graph_.results) mark(value);
    for (const ir::Variable& variable : graph_.variables)
      if (variable.updated.valid()) mark(variable.updated);
    if (graph_.loop)
      for (const ir::State& state : graph_.loop->states)
        for (const ValueId set : {state.first, state.updated}) mark(set);
    for (const ValueId value : graph_.watched) {
      mark(value);
      watched_.insert(value);
    }
  }

  /// Returns the tensor of a value, and makes it on the first call.
  TensorId tensor(ValueId id) {
    TensorId& tensor = lowered_.tensor_of[id.index()];
    if (tensor.valid()) return tensor;
    const ir::Value& value = graph_[id];
    plan::Tensor made;
    made.name = value.name;
    made.dtype = value.dtype;
    made.shape = value.shape;
    made.role = value.role;
    made.batch_axis = value.batch_axis;
    // The tensor of a value that is per shard must record how its parts are combined, because the
    // ops do not show it.
    const ir::Node* producer = graph_.producer_of(id);
    if (graph_.shards > 1 && (read_as_whole_[id.index()] || (producer && producer->per_shard)))
      made.combine = value.combine;
    made.where = sources_.where(value.span);
    made.device = elsewhere(value.device);
    tensor = TensorId(job_.tensors.size());
    job_.tensors.push_back(std::move(made));
    return tensor;
  }

  /// Returns the device if it is not that of the job.
  std::optional<plan::DeviceKind> elsewhere(plan::DeviceKind device) const {
    return device == graph_.device ? std::nullopt : std::optional(device);
  }

  std::vector<TensorId> read(const std::vector<ValueId>& values) const {
    std::vector<TensorId> tensors;
    for (const ValueId value : values) {
      tensors.push_back(lowered_.tensor_of[value.index()]);
      FLOW_CHECK(tensors.back().valid(), "{} is read before it is made", graph_[value].name);
    }
    return tensors;
  }

  /// Returns a step for the node with only its first `count` epilogue ops, and without outputs.
  plan::Step step_of(const ir::Node& node, size_t count) const {
    plan::Step step;
    step.op = node.op->name;
    step.name = node.name;
    step.inputs = read(node.operands);
    step.attributes = node.attributes;
    for (size_t i = 0; i < count; ++i) {
      const ir::EpilogueOp& fused = node.epilogue[i];
      step.epilogue.push_back({fused.op->name, fused.name, read(fused.operands), fused.attributes});
    }
    step.probe = node.probe;
    step.per_shard = node.per_shard;
    step.where = sources_.where(node.span);
    step.device = elsewhere(node.device);
    return step;
  }

  /// If hooks read an intermediate value of a fused node, adds a probe that computes it separately,
  /// with fewer epilogue ops.
  void add_probes(const ir::Node& node) {
    for (size_t count = 0; count < node.epilogue.size(); ++count) {
      const ValueId inner = node.epilogue[count].replaced;
      if (!watched_.contains(inner)) continue;
      plan::Step probe = step_of(node, count);
      probe.name = graph_[inner].name + ":tap";
      probe.outputs = {tensor(inner)};
      probe.outputs.resize(node.results.size());
      probe.probe = true;
      job_.steps.push_back(std::move(probe));
    }
  }

  void add_step(const ir::Node& node) {
    plan::Step step = step_of(node, node.epilogue.size());
    const ops::OpSpec& spec = *node.op;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      const bool absent = i > 0 && !read_[result.index()] && spec.may_be_absent(i);
      step.outputs.push_back(absent ? TensorId() : tensor(result));
    }
    job_.steps.push_back(std::move(step));
  }

  const ir::Graph& graph_;
  const Sources& sources_;
  plan::Job& job_;
  Lowered lowered_;
  std::vector<bool> read_;  // indexed by ValueId: whether anything reads it
  // Indexed by ValueId: whether a node that runs once, or code outside of the graph, reads it.
  std::vector<bool> read_as_whole_;
  std::set<ValueId> watched_;  // read by hooks, or by nodes that hooks read
  // The first step that runs once, if there are shards.
  std::optional<plan::StepId> once_;
};

}  // namespace

Lowered lower(const ir::Graph& graph, const Sources& sources, plan::Job& job) {
  return Lowering(graph, sources, job).run();
}

}  // namespace flow
