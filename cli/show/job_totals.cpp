// Sums over a job's variables and steps.
#include "cli/show/job_totals.h"

#include "cli/show/show_memory.h"
#include "ops/core/spec.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/model/flops.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {

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
  totals.memory = peak_memory(job);
  return totals;
}

}  // namespace flow::cli
