// Lists fingerprints in the order of computing.
#include "runtime/exec/run/fingerprint_plan.h"

#include <algorithm>

namespace flow::exec {

using plan::TensorId;

FingerprintPlan::FingerprintPlan(const plan::Job& job, const Rules& rules)
    : of_steps_(job.steps.size()) {
  for (const plan::Input& input : job.inputs) add(input.tensor, kFound, rules, found_);
  for (const plan::Variable& variable : job.variables) add(variable.tensor, kFound, rules, found_);
  const size_t shard_steps = job.sharding ? job.sharding->steps.index() : 0;
  for (size_t step = 0; step < job.steps.size(); ++step) {
    if (!rules.writes(step)) continue;
    for (const TensorId id : job.steps[step].outputs) {
      if (!id.valid()) continue;
      const bool is_combined = step < shard_steps && job[id].combine;
      add(id, is_combined ? kCombined : step, rules, is_combined ? combined_ : of_steps_[step]);
    }
  }
}

void FingerprintPlan::add(TensorId tensor, size_t step, const Rules& rules,
                          std::vector<Entry>& to) {
  const TensorId shown = rules.shown ? rules.shown(tensor) : tensor;
  // A device may make several versions of a tensor: the first one counts.
  if (!shown.valid() || (rules.shown && std::ranges::count(tensors_, shown) > 0)) return;
  to.push_back({tensor, tensors_.size(), rules.part_of(step, tensor)});
  tensors_.push_back(shown);
}

FingerprintPlan::Part part_of_rank(const TensorSlice& slice, int64_t elements, int rank) {
  if (slice.bounds.empty()) return {0, rank == 0 ? elements : 0, 0};
  return {slice.bounds[static_cast<size_t>(rank)], slice.elements, slice.offset};
}

}  // namespace flow::exec
