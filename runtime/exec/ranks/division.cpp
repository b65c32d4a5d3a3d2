// Slices of the tensors that updates read and write.
#include "runtime/exec/ranks/division.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace flow::exec {

using plan::TensorId;

std::vector<SlicedUpdate> find_sliced_updates(const plan::Job& job,
                                              std::span<const TensorId> owners,
                                              std::span<const TensorId> deliverables,
                                              std::span<const TensorId> entries) {
  const auto owner = [&](TensorId id) { return owners[id.index()]; };
  std::vector<SlicedUpdate> updates;
  for (DividedUpdate& update : find_divided_updates(job, owners, deliverables)) {
    const auto entry = std::ranges::find(entries, owner(update.gradient), owner);
    FLOW_CHECK(entry != entries.end(), "gradient {}", update.gradient.value);
    updates.push_back({std::move(update), static_cast<size_t>(entry - entries.begin())});
  }
  return updates;
}

Division::Division(const plan::Job& job, std::vector<SlicedUpdate> updates,
                   std::span<const Bucket> buckets, int rank)
    : updates_(std::move(updates)) {
  cut(buckets, static_cast<size_t>(rank));
  for (size_t i = 0; i < updates_.size(); ++i) add_steps(job, i);
  add_norms(job);
}

void Division::cut(std::span<const Bucket> buckets, size_t rank) {
  for (SlicedUpdate& sliced : updates_) {
    const auto bucket = std::ranges::find_if(buckets, [&](const Bucket& one) {
      return std::ranges::find(one.tensors, sliced.entry) != one.tensors.end();
    });
    FLOW_CHECK(bucket != buckets.end(), "entry {}", sliced.entry);
    sliced.bounds = bounds_of(*bucket, sliced.entry);
    if (sliced.bounds.empty()) continue;
    sliced.first = sliced.bounds[rank];
    sliced.end = sliced.bounds[rank + 1];
  }
  std::erase_if(updates_, [](const SlicedUpdate& sliced) { return sliced.bounds.empty(); });
}

void Division::add_steps(const plan::Job& job, size_t index) {
  const DividedUpdate& update = updates_[index].update;
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
    if (!reads_norm(job, job.steps[i])) continue;
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

TensorSlice Division::slot(TensorId variable) const {
  for (const SlicedUpdate& sliced : updates_)
    if (std::ranges::find(sliced.update.slots, variable) != sliced.update.slots.end())
      return {sliced.bounds, sliced.elements(), 0};
  return {};
}

std::vector<VariableSlice> Division::slots() const {
  std::vector<VariableSlice> slices;
  for (const SlicedUpdate& sliced : updates_)
    for (const TensorId slot : sliced.update.slots)
      slices.push_back({slot, static_cast<size_t>(sliced.elements()) * sizeof(float)});
  return slices;
}

}  // namespace flow::exec
