// Slices of the tensors that updates read and write.
#include "runtime/cpu/backend/division.h"

namespace flow::cpu {

using plan::TensorId;

Division::Division(const plan::Job& job, std::vector<SlicedUpdate> updates, int rank)
    : updates_(std::move(updates)) {
  for (size_t i = 0; i < updates_.size(); ++i) {
    SlicedUpdate& sliced = updates_[i];
    sliced.first = sliced.bounds[static_cast<size_t>(rank)];
    sliced.end = sliced.bounds[static_cast<size_t>(rank) + 1];
    add_steps(job, i);
  }
  add_norms(job);
}

void Division::add_steps(const plan::Job& job, size_t index) {
  const exec::DividedUpdate& update = updates_[index].update;
  for (const size_t i : update.steps) {
    const plan::Step& step = job.steps[i];
    const auto add = [&](TensorId id, bool is_slot) {
      if (job[id].shape == job[update.gradient].shape) uses_[{i, id}] = {index, is_slot};
    };
    const bool updates = i == update.steps.back();
    for (size_t k = 0; k < step.inputs.size(); ++k) add(step.inputs[k], updates && k >= 2);
    for (size_t k = 0; k < step.outputs.size(); ++k) add(step.outputs[k], updates && k >= 1);
  }
}

/// They read gradients as the steps above read or make them.
void Division::add_norms(const plan::Job& job) {
  std::map<TensorId, size_t> gradients;
  for (size_t i = 0; i < updates_.size(); ++i)
    for (const size_t step : updates_[i].update.steps) gradients[job.steps[step].inputs[0]] = i;
  for (size_t i = 0; i < job.steps.size(); ++i) {
    if (!exec::reads_norm(job, job.steps[i])) continue;
    for (const TensorId id : job.steps[i].inputs)
      if (const auto found = gradients.find(id); found != gradients.end())
        uses_[{i, id}] = {found->second, false};
  }
}

TensorSlice Division::slice(size_t step, TensorId tensor) const {
  const auto use = uses_.find({step, tensor});
  if (use == uses_.end()) return {};
  const SlicedUpdate& update = updates_[use->second.update];
  const size_t offset = use->second.is_slot ? 0 : static_cast<size_t>(update.first) * sizeof(float);
  return {update.bounds, update.elements(), offset};
}

}  // namespace flow::cpu
