// Graph -> plan: tensors, steps in order, and taps for watched values inside fused steps.
#include "compiler/lower/lower.h"

#include <set>

#include "compiler/lower/aliases.h"
#include "compiler/passes/reads.h"
#include "ops/spec.h"
#include "runtime/base/check.h"

namespace flow {
namespace {

using ir::ValueId;
using plan::TensorId;

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const Sources& sources, plan::Job& job)
      : graph_(graph), sources_(sources), job_(job), read_(graph.values.size()) {
    lowered_.tensor_of.resize(graph.values.size());
  }

  Lowered run() {
    job_.device = graph_.device;
    find_readers();
    for (const ValueId input : graph_.inputs) tensor(input);
    for (const ir::Variable& variable : graph_.variables)
      job_.variables.push_back(
          {tensor(variable.value), variable.initializer, variable.trainable, variable.slot});
    for (const ir::Node& node : graph_.nodes) {
      add_taps(node);
      add_step(node);
    }
    for (const ir::Variable& variable : graph_.variables)
      if (variable.updated.valid())
        job_.tensors[tensor(variable.updated).index()].alias = tensor(variable.value);
    add_aliases(graph_, lowered_.tensor_of, job_);
    return std::move(lowered_);
  }

 private:
  void find_readers() {
    const auto mark = [this](ValueId value) { read_[value.index()] = true; };
    for (const ir::Node& node : graph_.nodes)
      for (const ValueId value : passes::reads_of(node)) {
        mark(value);
        if (node.tap) watched_.insert(value);
      }
    for (const ValueId value : graph_.results) mark(value);
    for (const ir::Variable& variable : graph_.variables)
      if (variable.updated.valid()) mark(variable.updated);
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
    made.rows = value.rows;
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

  /// The node with its first `posts` posts, without outputs.
  plan::Step step_of(const ir::Node& node, size_t posts) const {
    plan::Step step;
    step.op = node.op->name;
    step.name = node.name;
    step.inputs = read(node.operands);
    step.attributes = node.attributes;
    for (size_t i = 0; i < posts; ++i) {
      const ir::Post& post = node.posts[i];
      step.posts.push_back({post.op->name, post.name, read(post.operands), post.attributes});
    }
    step.tap = node.tap;
    step.where = sources_.where(node.span);
    step.device = elsewhere(node.device);
    return step;
  }

  /// What hooks read of a fused node's inner values is computed beside it, with fewer posts.
  void add_taps(const ir::Node& node) {
    for (size_t posts = 0; posts < node.posts.size(); ++posts) {
      const ValueId inner = node.posts[posts].replaced;
      if (!watched_.contains(inner)) continue;
      plan::Step tap = step_of(node, posts);
      tap.name = graph_[inner].name + ":tap";
      tap.outputs = {tensor(inner)};
      tap.outputs.resize(node.results.size());
      tap.tap = true;
      job_.steps.push_back(std::move(tap));
    }
  }

  void add_step(const ir::Node& node) {
    plan::Step step = step_of(node, node.posts.size());
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
  std::vector<bool> read_;     // by ValueId: by anyone
  std::set<ValueId> watched_;  // by hooks, or by nodes that hooks read
};

}  // namespace

Lowered lower(const ir::Graph& graph, const Sources& sources, plan::Job& job) {
  return Lowering(graph, sources, job).run();
}

}  // namespace flow
