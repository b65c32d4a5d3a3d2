// Graph -> plan: tensors, steps in order, and probes for watched values inside fused steps.
#include "compiler/lower/lower.h"

#include <optional>
#include <set>

#include "compiler/lower/aliases.h"
#include "compiler/passes/reads.h"
#include "ops/core/spec.h"
#include "runtime/base/check.h"

namespace flow {
namespace {

using ir::ValueId;
using plan::TensorId;

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

  /// Before the steps of the next node, and behind the last one.
  void count_loop_steps(ir::LoopPart next) {
    const auto begin = [&](plan::StepId& step, ir::LoopPart part) {
      if (!step.valid() && next >= part) step = plan::StepId(job_.steps.size());
    };
    begin(job_.loop->first, ir::LoopPart::kPass);
    begin(job_.loop->end, ir::LoopPart::kAfter);
  }

  /// What sets a state is written onto it.
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

  /// The tensor of a value, made when it is first asked for.
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
    // Only the tensor itself says of what is per shard that it is a part of a sum.
    const ir::Node* producer = graph_.producer_of(id);
    if (graph_.shards > 1 && (read_as_whole_[id.index()] || (producer && producer->per_shard)))
      made.combine = value.combine;
    made.where = sources_.where(value.span);
    made.device = elsewhere(value.device);
    tensor = TensorId(job_.tensors.size());
    job_.tensors.push_back(std::move(made));
    return tensor;
  }

  /// The device, where it is not the job's.
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

  /// The node with its first `count` epilogue ops, without outputs.
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

  /// What hooks read of a fused node's inner values is computed beside it, with fewer epilogue ops.
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
  std::vector<bool> read_;            // by ValueId: by anyone
  std::vector<bool> read_as_whole_;   // by ValueId: by a node that runs once, or from outside
  std::set<ValueId> watched_;         // by hooks, or by nodes that hooks read
  std::optional<plan::StepId> once_;  // where shards: the first step that runs once
};

}  // namespace

Lowered lower(const ir::Graph& graph, const Sources& sources, plan::Job& job) {
  return Lowering(graph, sources, job).run();
}

}  // namespace flow
