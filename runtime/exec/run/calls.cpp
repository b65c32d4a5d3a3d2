// Counts the buffers that the calls of a job need, reads the results of completed calls, and runs
// steps on all ranks together.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "ops/core/known.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/exec/run/executor.h"

namespace flow::exec {
namespace {

/// Returns where a fault occurred: "row 3", "[12, 5] (row 3900 of data/labels.npy)".
std::string place_of_fault(const Fault& fault, int64_t step, const plan::Job& job,
                           const InputPipeline& input_pipeline) {
  const auto operand = std::ranges::find(job.tensors, fault.operand, &plan::Tensor::name);
  if (operand == job.tensors.end() || operand->shape.elements() <= fault.row)
    return fmt::format("row {}", fault.row);
  const std::string place = operand->shape.rank() < 2 ? fmt::format("row {}", fault.row)
                                                      : operand->shape.index_str(fault.row);
  const int64_t batch = input_pipeline.step_index().batch();
  if (batch == 0 || operand->batch_axis != 0 || operand->shape[0] != batch) return place;
  const int64_t row = fault.row / operand->shape.elements(1, operand->shape.rank());
  return fmt::format("{} ({})", place, input_pipeline.row_text(fault.operand, step, row));
}

/// Returns a hint for the label by which other programs mark rows to be ignored. A loss accepts
/// these labels, but an index into a table does not.
std::string hint_for(const Fault& fault, const plan::Job& job) {
  constexpr int64_t kIgnored = -100;
  const bool ignores = std::ranges::any_of(job.steps, [&](const plan::Step& step) {
    return step.where == fault.where && step.op->attribute("ignore_index");
  });
  const std::string from_zero = "count labels and indices from 0";
  if (!ignores || fault.value != kIgnored) return from_zero;
  return fmt::format("{}, or write `ignore_index: {}` if such labels do not count", from_zero,
                     kIgnored);
}

}  // namespace

int64_t pipeline_of(const plan::Job& job) {
  return job.returns && job.returns->callback ? job.run.pipeline : 1;
}

size_t input_slots(const plan::Job& job) {
  constexpr size_t kSmall = size_t{4} << 20;
  size_t bytes = 0;
  for (const plan::Input& input : job.inputs) bytes += whole_bytes_of(job, job[input.tensor]);
  return std::max<size_t>(bytes <= kSmall ? 4 : 2, static_cast<size_t>(pipeline_of(job)));
}

size_t output_slots(const plan::Job& job, const Backend& backend) {
  return std::max<size_t>(backend.asynchronous() ? 2 : 1, static_cast<size_t>(pipeline_of(job)));
}

std::vector<plan::TensorId> divisors_of_loss(const plan::Job& job) {
  std::vector<plan::TensorId> divisors, parts;
  if (job.optimizer) parts.push_back(job.optimizer->loss);
  for (size_t i = 0; i < parts.size(); ++i)
    for (const plan::Step& step : job.steps) {
      if (step.outputs[0] != parts[i] || step.per_shard || !step.epilogue.empty()) continue;
      for (const plan::TensorId input : step.inputs)
        if (step.op == ops::kAdd && std::ranges::find(parts, input) == parts.end())
          parts.push_back(input);
      if (step.op == ops::kDivide && job[step.inputs[1]].role == plan::Role::kResult &&
          job[step.inputs[1]].shape.rank() == 0)
        divisors.push_back(step.inputs[1]);
    }
  return divisors;
}

std::vector<plan::TensorId> read_in_each_call(const plan::Job& job) {
  std::vector<plan::TensorId> list;
  if (job.optimizer)
    plan::visit_tensors(*job.optimizer, [&list](plan::TensorId id) { list.push_back(id); });
  for (const plan::TensorId divisor : divisors_of_loss(job))
    if (std::ranges::find(list, divisor) == list.end()) list.push_back(divisor);
  if (job.loop && job.loop->until.valid()) list.push_back(job.loop->until);
  return list;
}

std::vector<plan::TensorId> list_deliverables(const plan::Job& job,
                                              const std::vector<Delivery>& deliveries) {
  std::vector<plan::TensorId> list = read_in_each_call(job);
  for (const Delivery& delivery : deliveries)
    if (std::ranges::find(list, delivery.tensor) == list.end()) list.push_back(delivery.tensor);
  return list;
}

void read_losses(const Program& program, size_t slot, const plan::Job& job, StepRecord& record) {
  const auto scalar = [&](plan::TensorId id) { return delivered_scalar(program, id, slot); };
  record.loss = scalar(job.optimizer->loss);
  record.without_labels = std::isnan(*record.loss) &&
                          std::ranges::any_of(divisors_of_loss(job),
                                              [&](plan::TensorId id) { return scalar(id) == 0; });
  if (job.optimizer->gradient_norm) record.gradient_norm = scalar(*job.optimizer->gradient_norm);
  if (const auto& scale = job.optimizer->loss_scale) {
    record.loss_scale = scalar(scale->scale);
    record.skipped = std::isnan(scalar(scale->factor));
  }
}

std::string text_of_loss(const plan::Optimizer& optimizer, const StepRecord& record) {
  return fmt::format("the loss `{}` is {}{}", optimizer.loss_name, shortest(*record.loss),
                     record.without_labels ? ": all labels are ignored or have weight 0" : "");
}

RunError fault_error(const Fault& fault, int64_t step, const plan::Job& job,
                     const InputPipeline& input_pipeline) {
  return RunError(fmt::format("{}: step {}: `{}` contains {} at {}; expected a value in [0, {})",
                              fault.where, step, fault.operand, fault.value,
                              place_of_fault(fault, step, job, input_pipeline), fault.limit),
                  hint_for(fault, job));
}

RunResult execute_on_ranks(const Execution& execution, int64_t job) {
  const Ranks* ranks = execution.ranks;
  if (!ranks) return execute(execution);
  if (ranks->leads())
    ranks->send({.kind = Order::Kind::kExecute,
                 .job = job,
                 .first = execution.first,
                 .end = execution.end,
                 .learning_rate = execution.learning_rate});
  RunResult result = execute(execution);
  try {
    ranks->join(result.error, {});
  } catch (const EndedByLeader&) {
    // Rank 0 reports the error.
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

}  // namespace flow::exec
