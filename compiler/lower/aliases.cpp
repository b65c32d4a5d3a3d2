// Which results may lie in the memory of what they are made from.
#include "compiler/lower/aliases.h"

#include <algorithm>

#include "ops/core/spec.h"
#include "runtime/plan/model/operands.h"

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
  /// The tensor in whose memory this one lies; long chains are cut short on the way.
  size_t root(TensorId tensor) {
    size_t i = tensor.index();
    for (; parent_[i] != i; i = parent_[i]) parent_[i] = parent_[parent_[i]];
    return i;
  }

  void alias(TensorId result, TensorId of) {
    job_.tensors[result.index()].alias = of;
    parent_[root(result)] = root(of);
  }

  /// What replaces the updated value of a variable is written onto it.
  void add_replacements() {
    for (const plan::Step& step : job_.steps)
      if (const auto old = step.op->result(0).replaces) alias(step.outputs[0], step.inputs[*old]);
  }

  /// A variable is written at the end of a call, when a reshape of it may still be read. What is
  /// written onto the state of a loop has its alias.
  void add_reshapes() {
    for (const plan::Step& step : job_.steps)
      if (step.op->view && !step.probe && !job_.tensors[step.outputs[0].index()].alias.valid() &&
          (job_.loop || job_.tensors[root(step.inputs[0])].role != plan::Role::kVariable))
        alias(step.outputs[0], step.inputs[0]);
  }

  /// By root: the index of the last step that reads it.
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
  std::vector<size_t> parent_;     // by tensor: itself, or one nearer its root
  std::vector<size_t> last_read_;  // by root: the last step that reads it; steps.size(): outside
};

}  // namespace

void add_aliases(const ir::Graph& graph, const std::vector<TensorId>& tensor_of, plan::Job& job) {
  Aliases(job).run(graph, tensor_of);
}

}  // namespace flow
