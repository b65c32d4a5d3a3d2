// A pass from plan to plan that makes residual sums parts of other steps.
#include "runtime/cuda/program/passes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/known.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/program/steps.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

class ResidualFuser {
 public:
  ResidualFuser(const plan::Job& job, std::span<const TensorId> visible)
      : job_(job),
        roots_(plan::alias_roots(job)),
        uses_(find_uses(job, visible)),
        edits_(job.steps.size()) {
    for (size_t i = 0; i < job.tensors.size(); ++i)
      if (job.tensors[i].combine) uses_[i].seen = true;
  }

  plan::Job fuse() {
    for (size_t i = 0; i < job_.steps.size(); ++i) {
      if (edits_.is_gone(i) || !is_sum(job_.steps[i])) continue;
      // A sum that moves to its reader is visited again there.
      if (!fuse_reader(i)) fuse_into_normalization(i);
    }
    edits_.apply(job_);
    return std::move(job_);
  }

 private:
  /// Returns true for a sum of two tensors that need no broadcasting and that no update overwrites.
  bool is_sum(const plan::Step& step) const {
    if (step.op != ops::kAdd || step.probe || !is_float(job_[step.outputs[0]].dtype)) return false;
    return std::ranges::all_of(step.inputs, [&](TensorId id) {
      return job_[id].shape == job_[step.outputs[0]].shape &&
             job_[roots_[id.index()]].role != plan::Role::kVariable;
    });
  }

  /// Returns the only step that reads the tensor, if it runs in the same part as the step `at`.
  std::optional<size_t> only_reader(TensorId id, size_t at) const {
    const std::vector<size_t>& readers = uses_[id.index()].readers;
    return readers.size() == 1 && same_shards(at, readers[0]) ? std::optional(readers[0])
                                                              : std::nullopt;
  }

  bool same_shards(size_t a, size_t b) const {
    if (!job_.sharding) return true;
    return (a < job_.sharding->steps.index()) == (b < job_.sharding->steps.index());
  }

  /// Makes a ReLU of the sum, or the gradient of a ReLU that reads the sum, an epilogue of the sum.
  /// The sum then moves to the position of that step.
  bool fuse_reader(size_t at) {
    const TensorId sum = job_.steps[at].outputs[0];
    const std::optional<size_t> reader = only_reader(sum, at);
    if (!reader || !job_.steps[at].epilogue.empty()) return false;
    plan::Step& rectifier = job_.steps[*reader];
    const bool rectifies = rectifier.op->epilogue == ops::Epilogue::kRelu ||
                           rectifier.op->gradient_of == ops::Epilogue::kRelu;
    if (!rectifies || rectifier.inputs[0] != sum || !rectifier.epilogue.empty()) return false;
    const bool seen = uses_[sum.index()].seen;
    if (seen) add_probe(at, job_.steps[at]);
    plan::Step fused = job_.steps[at];
    fused.epilogue.push_back({rectifier.op,
                              rectifier.name,
                              {rectifier.inputs.begin() + 1, rectifier.inputs.end()},
                              rectifier.attributes});
    make(fused, rectifier.outputs[0], *reader,
         seen ? TensorId() : std::exchange(job_.tensors[sum.index()].alias, TensorId()));
    for (const TensorId id : fused.inputs)
      std::ranges::replace(uses_[id.index()].readers, at, *reader);
    rectifier = std::move(fused);
    edits_.remove(at);
    return true;
  }

  /// Makes the sum an epilogue of the batch normalization that makes one of its operands, if the
  /// other operand is available before.
  void fuse_into_normalization(size_t at) {
    const plan::Step& sum = job_.steps[at];
    if (!sum.epilogue.empty() && sum.epilogue[0].op->epilogue != ops::Epilogue::kRelu) return;
    for (const size_t own : {size_t{0}, size_t{1}}) {
      const TensorId normalized = sum.inputs[own], shortcut = sum.inputs[1 - own];
      const std::optional<size_t> maker = uses_[normalized.index()].maker;
      if (!maker || only_reader(normalized, *maker) != at) continue;
      plan::Step& step = job_.steps[*maker];
      if (!takes_sum(step) || step.outputs[0] != normalized || !is_there(shortcut, *maker))
        continue;
      if (uses_[normalized.index()].seen) {
        plan::Step alone = step;
        std::fill(alone.outputs.begin() + 1, alone.outputs.end(), TensorId());
        add_probe(*maker, std::move(alone));
      }
      step.epilogue = sum.epilogue;
      step.epilogue.insert(step.epilogue.begin(), {sum.op, sum.name, {shortcut}, sum.attributes});
      make(step, sum.outputs[0], *maker, TensorId());
      std::ranges::replace(uses_[shortcut.index()].readers, at, *maker);
      edits_.remove(at);
      return;
    }
  }

  bool takes_sum(const plan::Step& step) const {
    const KernelEntry* kernel = find_kernel(step.op.name());
    return kernel && kernel->epilogue == TakesEpilogue::kSumRelu && !step.probe &&
           step.epilogue.empty();
  }

  /// Returns true if the tensor has its values before the step `at`.
  bool is_there(TensorId id, size_t at) const {
    const std::optional<size_t>& maker = uses_[id.index()].maker;
    return maker ? *maker < at : job_[id].role != plan::Role::kResult;
  }

  /// Makes `step`, which is at position `at`, the maker of `result`, which may alias `alias`.
  void make(plan::Step& step, TensorId result, size_t at, TensorId alias) {
    step.outputs[0] = result;
    uses_[result.index()].maker = at;
    job_.tensors[result.index()].alias = alias;
  }

  void add_probe(size_t at, plan::Step step) {
    const plan::Step& probe = edits_.add_probe(at, std::move(step));
    plan::visit_operands(probe, [&](TensorId id) { uses_[id.index()].seen = true; });
  }

  plan::Job job_;
  const std::vector<TensorId> roots_;  // indexed by tensor: the root of its aliases
  std::vector<TensorUses> uses_;       // indexed by tensor
  StepEdits edits_;
};

}  // namespace

plan::Job fuse_residuals(const plan::Job& job, std::span<const TensorId> visible) {
  return ResidualFuser(job, visible).fuse();
}

}  // namespace flow::cuda
