// Lists fingerprints in the order of computing.
#include "runtime/exec/run/fingerprint_plan.h"

#include <algorithm>
#include <iterator>

#include "ops/core/spec.h"
#include "runtime/plan/model/operands.h"

namespace flow::exec {

using plan::TensorId;

namespace {

/// What another device leaves in host memory and no step copies from there.
std::vector<TensorId> received_in_place(const plan::Job& job,
                                        std::span<const TransferredTensor> transferred) {
  std::vector<TensorId> received;
  std::ranges::transform(transferred, std::back_inserter(received), &TransferredTensor::tensor);
  for (const plan::Step& step : job.steps)
    if (step.op->between_devices)
      std::erase_if(received,
                    [&](TensorId id) { return id == step.inputs[0] || id == step.outputs[0]; });
  return received;
}

}  // namespace

FingerprintPlan::FingerprintPlan(const plan::Job& job, const Rules& rules,
                                 std::span<const TransferredTensor> transferred)
    : before_steps_(job.steps.size()), of_steps_(job.steps.size()) {
  for (const plan::Input& input : job.inputs) add(input.tensor, kFound, rules, found_);
  for (const plan::Variable& variable : job.variables) add(variable.tensor, kFound, rules, found_);
  std::vector<TensorId> received = received_in_place(job, transferred);
  const size_t shard_steps = job.sharding ? job.sharding->steps.index() : 0;
  for (size_t step = 0; step < job.steps.size(); ++step) {
    if (!job.steps[step].probe)
      plan::visit_operands(job.steps[step], [&](TensorId id) {
        if (std::erase(received, id) > 0) add(id, kFound, rules, before_steps_[step]);
      });
    if (!rules.writes(step)) continue;
    for (const TensorId id : job.steps[step].outputs) {
      const bool is_sent = std::ranges::count(transferred, id, &TransferredTensor::tensor) > 0;
      if (!id.valid() || is_sent) continue;
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
