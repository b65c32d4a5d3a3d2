// Who makes and reads each tensor, from the steps.
#include "runtime/cuda/program/step_edits.h"

#include "runtime/plan/model/lifetimes.h"

namespace flow::cuda {

using plan::TensorId;

std::vector<TensorUses> find_uses(const plan::Job& job, std::span<const TensorId> visible) {
  std::vector<TensorUses> uses(job.tensors.size());
  for (const TensorId id : visible)
    if (id.valid()) uses[id.index()].seen = true;
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    plan::visit_operands(step, [&](TensorId id) {
      if (step.probe)
        uses[id.index()].seen = true;
      else
        uses[id.index()].readers.push_back(i);
    });
    for (const TensorId id : step.outputs)
      if (id.valid()) uses[id.index()].maker = i;
  }
  return uses;
}

}  // namespace flow::cuda
