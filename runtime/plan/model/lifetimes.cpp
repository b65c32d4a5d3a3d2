// When each tensor's memory is in use.
#include "runtime/plan/model/lifetimes.h"

#include <algorithm>

#include "runtime/plan/model/operands.h"

namespace flow::plan {

namespace {

void extend(Tensor& tensor, StepId step) { tensor.last = std::max(tensor.last, step); }

void extend_returned(Job& job, const ReturnValue& value, StepId end) {
  if (value.tensor.valid()) extend(job.tensors[value.tensor.index()], end);
  for (const ReturnValue& item : value.items) extend_returned(job, item, end);
}

}  // namespace

std::vector<TensorId> alias_roots(const Job& job) {
  std::vector<TensorId> roots(job.tensors.size());
  for (size_t i = 0; i < roots.size(); ++i) {
    TensorId end(i);  // of the chain, or where the root is known already
    while (job[end].alias.valid() && !roots[end.index()].valid()) end = job[end].alias;
    if (!roots[end.index()].valid()) roots[end.index()] = end;
    for (TensorId id(i); id != end; id = job[id].alias) roots[id.index()] = roots[end.index()];
  }
  return roots;
}

std::vector<TensorId> read_in_passes(const Job& job) {
  const size_t first = job.loop->first.index(), end = job.loop->end.index();
  std::vector<bool> outside(job.tensors.size());
  for (size_t i = 0; i < first; ++i)
    for (const TensorId id : job.steps[i].outputs)
      if (id.valid()) outside[id.index()] = true;
  std::vector<TensorId> read;
  for (size_t i = first; i < end; ++i)
    visit_operands(job.steps[i], [&](TensorId id) {
      if (outside[id.index()]) read.push_back(id);
      outside[id.index()] = false;  // listed once
    });
  return read;
}

void assign_lifetimes(Job& job) {
  for (Tensor& tensor : job.tensors) tensor.first = tensor.last = StepId();
  if (job.steps.empty()) return;
  const auto tensor = [&job](TensorId id) -> Tensor& { return job.tensors[id.index()]; };

  const StepId end(job.steps.size() - 1);
  for (Tensor& outer : job.tensors) {
    if (outer.role == Role::kResult) continue;
    outer.first = StepId(size_t{0});
    outer.last = end;
  }
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const Step& step = job.steps[i];
    for (const TensorId id : step.outputs)
      if (id.valid()) tensor(id).first = tensor(id).last = StepId(i);
    visit_operands(step, [&](TensorId id) { extend(tensor(id), StepId(i)); });
  }
  // What is delivered is read when the call is complete.
  for (const Hook& hook : job.hooks) extend(tensor(hook.tensor), end);
  if (job.returns) extend_returned(job, job.returns->value, end);
  if (job.optimizer) visit_tensors(*job.optimizer, [&](TensorId id) { extend(tensor(id), end); });

  // Parts of shards are combined behind the last step of each shard.
  if (job.sharding)
    for (Tensor& part : job.tensors)
      if (part.combine) extend(part, std::min(job.sharding->steps, end));

  // What is made before a loop is read in its last pass, too.
  if (job.loop)
    for (const TensorId id : read_in_passes(job))
      extend(tensor(id), StepId(job.loop->end.index() - 1));

  const std::vector<TensorId> roots = alias_roots(job);
  for (size_t i = 0; i < roots.size(); ++i) extend(tensor(roots[i]), job.tensors[i].last);
}

}  // namespace flow::plan
