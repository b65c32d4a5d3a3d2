// How many buffers a job's calls need, and for what.
#include <algorithm>

#include "ops/core/known.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/run/executor.h"

namespace flow::exec {

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

}  // namespace flow::exec
