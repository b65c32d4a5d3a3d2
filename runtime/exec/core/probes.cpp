// Which steps run only for what is delivered: seen from the end of the call.
#include "runtime/exec/core/probes.h"

#include <algorithm>

#include "runtime/plan/model/operands.h"

namespace flow::exec {

std::vector<std::vector<size_t>> readers_of_probes(const plan::Job& job,
                                                   std::span<const plan::TensorId> deliverables,
                                                   std::span<const TransferredTensor> transferred) {
  std::vector<std::vector<size_t>> needed_by(job.tensors.size()), probes(job.steps.size());
  for (size_t i = 0; i < deliverables.size(); ++i)
    if (deliverables[i].valid()) needed_by[deliverables[i].index()].push_back(i);
  for (const TransferredTensor& tensor : transferred)
    needed_by[tensor.tensor.index()] = tensor.wanted_by;
  for (size_t i = job.steps.size(); i-- > 0;) {
    const plan::Step& step = job.steps[i];
    if (!step.probe) continue;
    std::vector<size_t>& readers = probes[i];
    for (plan::TensorId id : step.outputs) {
      if (!id.valid()) continue;
      const std::vector<size_t>& more = needed_by[id.index()];
      readers.insert(readers.end(), more.begin(), more.end());
    }
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    plan::visit_operands(step, [&](plan::TensorId id) {
      needed_by[id.index()].insert(needed_by[id.index()].end(), readers.begin(), readers.end());
    });
  }
  return probes;
}

}  // namespace flow::exec
