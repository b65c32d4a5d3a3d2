// Sums over a job's variables and steps, and over what lives at each step.
#include "cli/show/job_totals.h"

#include <algorithm>
#include <functional>

#include "ops/core/spec.h"
#include "runtime/plan/model/cost.h"
#include "runtime/plan/model/shards.h"

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

std::set<plan::TensorId> updated_variables(const plan::Job& job) {
  std::set<plan::TensorId> updated;
  for (const plan::Step& step : job.steps)
    for (const plan::TensorId id : step.outputs)
      if (id.valid() && !step.op->view) updated.insert(job[id].alias);
  return updated;
}

std::set<plan::TensorId> moving_statistics(const plan::Job& job) {
  std::set<plan::TensorId> found;
  for (const plan::Step& step : job.steps)
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.op->operand(i).statistic) found.insert(step.inputs[i]);
  return found;
}

JobTotals totals_of(const plan::Job& job) {
  JobTotals totals;
  const std::set<plan::TensorId> statistics = moving_statistics(job);
  const std::set<plan::TensorId> updated = updated_variables(job);
  for (const plan::Variable& variable : job.variables) {
    const plan::Tensor& tensor = job[variable.tensor];
    totals.checkpoint += exec::bytes_of(tensor);
    if (variable.slot) continue;
    const bool trained = job.train && variable.trainable && updated.contains(variable.tensor);
    uint64_t& sum = statistics.contains(variable.tensor) ? totals.statistics
                    : trained                            ? totals.trained
                                                         : totals.frozen;
    sum += static_cast<uint64_t>(tensor.shape.elements());
  }
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    if (step.probe) continue;
    double flops = plan::flops(job, step);
    for (const plan::EpilogueOp& fused : step.epilogue) flops += plan::flops(job, step, fused);
    (plan::is_backward(step) ? totals.backward : totals.forward) +=
        flops * static_cast<double>(plan::runs_of(job, plan::StepId(i)));
  }
  const StepMemory results(job);
  totals.memory = results.variables + results.inputs + results.peak();
  return totals;
}

}  // namespace flow::cli
