// Follows each gradient from step to step until an update or until a step that needs the whole
// gradient, and divides the tensors that updates read and write.
#include "runtime/exec/ranks/division.h"

#include <algorithm>
#include <optional>

#include "ops/core/known.h"
#include "runtime/base/error.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::exec {
namespace {

using plan::TensorId;

bool is_update(const plan::Step& step) {
  const std::vector<ops::ResultSpec>& results = step.op->results;
  return !step.op->for_updates && !results.empty() && results[0].updates && step.epilogue.empty() &&
         !step.probe;
}

class UpdateFinder {
 public:
  UpdateFinder(const plan::Job& job, std::span<const TensorId> owners,
               std::span<const TensorId> deliverables)
      : job_(job), owners_(owners), readers_(job.tensors.size()), kept_(job.tensors.size()) {
    for (size_t i = 0; i < job.steps.size(); ++i) {
      plan::visit_operands(job.steps[i], [&](TensorId id) { readers_[id.index()].push_back(i); });
    }
    for (const TensorId id : deliverables)
      if (id.valid()) kept_[id.index()] = true;
  }

  std::vector<DividedUpdate> find() const {
    std::vector<DividedUpdate> updates;
    for (size_t i = 0; i < first_once(); ++i)
      for (const TensorId id : job_.steps[i].outputs)
        if (id.valid() && !job_.steps[i].probe && may_be_gradient(id))
          if (auto update = follow(id)) updates.push_back(std::move(*update));
    return updates;
  }

 private:
  size_t first_once() const { return job_.sharding ? job_.sharding->steps.index() : 0; }

  /// Returns true if the tensor may be a divided gradient. Scalars may not, because they are
  /// combined in float64.
  bool may_be_gradient(TensorId id) const {
    const plan::Tensor& tensor = job_[id];
    return tensor.combine && *tensor.combine != plan::Combine::kNone &&
           tensor.dtype == DType::kFloat32 && tensor.shape.rank() > 0 && is_alone(id);
  }

  /// Returns true if no other tensor in the same memory is needed as a whole.
  bool is_alone(TensorId id) const {
    for (size_t i = 0; i < owners_.size(); ++i)
      if (owners_[i] == owners_[id.index()] && job_.tensors[i].combine && TensorId(i) != id &&
          (kept_[i] || !readers_behind_shards(TensorId(i)).empty()))
        return false;
    return true;
  }

  std::span<const size_t> readers_behind_shards(TensorId id) const {
    const std::vector<size_t>& readers = readers_[id.index()];
    return {std::ranges::lower_bound(readers, first_once()), readers.end()};
  }

  std::optional<DividedUpdate> follow(TensorId gradient) const {
    DividedUpdate update{gradient, {}, {}, {}};
    for (TensorId id = gradient;;) {
      const std::optional<size_t> reader = only_reader(id);
      if (!reader) return {};
      update.steps.push_back(*reader);
      const plan::Step& step = job_.steps[*reader];
      if (is_update(step)) return finish(std::move(update), step);
      if (!changes_elements(step)) return {};
      id = step.outputs[0];
    }
  }

  /// Returns the step that reads the gradient, not counting norms. Returns nothing if there are
  /// several or if the gradient is delivered.
  std::optional<size_t> only_reader(TensorId id) const {
    std::optional<size_t> reader;
    for (const size_t at : readers_behind_shards(id)) {
      const plan::Step& step = job_.steps[at];
      if (reads_norm(job_, step)) continue;
      if (reader || step.inputs.empty() || step.inputs[0] != id) return {};
      reader = at;
    }
    return kept_[id.index()] ? std::nullopt : reader;
  }

  /// Returns true if each element of the result depends only on the same element of the gradient
  /// and of its variable, and on scalars.
  bool changes_elements(const plan::Step& step) const {
    if (!step.epilogue.empty() || step.probe || step.outputs.size() != 1) return false;
    const plan::Tensor &from = job_[step.inputs[0]], &to = job_[step.outputs[0]];
    if (to.shape != from.shape || to.dtype != from.dtype) return false;
    if (step.op->elementwise) return step.inputs.size() == 1 || step.op->for_updates;
    return (step.op == ops::kMultiply || step.op == ops::kDivide) &&
           job_[step.inputs[1]].shape.rank() == 0;
  }

  std::optional<DividedUpdate> finish(DividedUpdate update, const plan::Step& step) const {
    update.variable = step.inputs[1];
    const size_t slots = step.outputs.size() - 1;
    update.slots.assign(step.inputs.begin() + 2,
                        step.inputs.begin() + 2 + static_cast<std::ptrdiff_t>(slots));
    const auto is_read = [&](TensorId id) {
      return !id.valid() || kept_[id.index()] || !readers_[id.index()].empty();
    };
    if (std::ranges::any_of(step.outputs, is_read) || !all_variables(update)) return {};
    for (size_t i = 0; i + 1 < update.steps.size(); ++i)
      if (!reads_only(job_.steps[update.steps[i]], update.variable)) return {};
    return update;
  }

  /// Returns true if all are float32 variables, only the update reads the slots, and no later step
  /// reads the variable.
  bool all_variables(const DividedUpdate& update) const {
    const auto is_float = [this](TensorId id) {
      return job_[id].role == plan::Role::kVariable && job_[id].dtype == DType::kFloat32;
    };
    const auto is_slot = [&](TensorId id) {
      return is_float(id) && !kept_[id.index()] &&
             std::ranges::equal(readers_[id.index()], std::span(&update.steps.back(), 1));
    };
    return is_float(update.variable) && std::ranges::all_of(update.slots, is_slot) &&
           readers_[update.variable.index()].back() == update.steps.back();
  }

  /// Returns true if the step's second operand, if any, is the variable or a scalar.
  bool reads_only(const plan::Step& step, TensorId variable) const {
    return step.inputs.size() < 2 || step.inputs[1] == variable ||
           job_[step.inputs[1]].shape.rank() == 0;
  }

  const plan::Job& job_;
  const std::span<const TensorId> owners_;
  std::vector<std::vector<size_t>> readers_;  // the steps that read it in order, indexed by tensor
  std::vector<bool> kept_;                    // indexed by tensor
};

}  // namespace

bool reads_norm(const plan::Job& job, const plan::Step& step) {
  return step.op->for_updates && !step.op->result(0).updates &&
         job[step.outputs[0]].shape.rank() == 0;
}

std::vector<DividedUpdate> find_divided_updates(const plan::Job& job,
                                                std::span<const TensorId> owners,
                                                std::span<const TensorId> deliverables) {
  return UpdateFinder(job, owners, deliverables).find();
}

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

/// Adds the norms, which read the same slices of gradients as the steps above.
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

FingerprintPlan::Part part_of_rank(const TensorSlice& slice, int64_t elements, int rank) {
  if (slice.bounds.empty()) return {0, rank == 0 ? elements : 0, 0};
  return {slice.bounds[static_cast<size_t>(rank)], slice.elements, slice.offset};
}

}  // namespace flow::exec
