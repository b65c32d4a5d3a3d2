// Adds up who lives when.
#include "cli/show/step_memory.h"

#include <algorithm>
#include <functional>

namespace flow::cli {
namespace {

size_t bytes_of_role(const plan::Job& job, plan::Role role) {
  size_t bytes = 0;
  for (const plan::Tensor& tensor : job.tensors)
    if (tensor.role == role) bytes += exec::whole_bytes_of(job, tensor);
  return bytes;
}

}  // namespace

StepMemory::StepMemory(const plan::Job& job)
    : holdings(exec::list_holdings(
          job, exec::share_memory(job, [](plan::TensorId, plan::TensorId) { return true; }))),
      variables(bytes_of_role(job, plan::Role::kVariable)),
      inputs(bytes_of_role(job, plan::Role::kInput)) {
  std::vector<plan::Block> blocks;
  for (const exec::Holding& holding : holdings) blocks.push_back(holding.block);
  live = exec::live_bytes(blocks, job.steps.size());
  fullest = static_cast<size_t>(std::ranges::max_element(live) - live.begin());
  made.resize(job.steps.size());
  for (const exec::Holding& holding : holdings) made[holding.block.first].push_back(&holding);
}

std::vector<exec::Holding> StepMemory::at_peak() const {
  std::vector<exec::Holding> found;
  for (const exec::Holding& holding : holdings)
    if (holding.block.first <= fullest && fullest <= holding.block.last && holding.block.bytes > 0)
      found.push_back(holding);
  std::ranges::stable_sort(found, std::greater<>{},
                           [](const exec::Holding& holding) { return holding.block.bytes; });
  return found;
}

}  // namespace flow::cli
