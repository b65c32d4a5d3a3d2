// The calls of a program: runs its steps shard by shard, and delivers their results.
#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/backend/program.h"
#include "runtime/cpu/loops/onednn_status.h"
#include "runtime/cpu/loops/parallel.h"
#include "runtime/exec/core/collectives.h"

namespace flow::cpu {

using exec::TensorInfo;
using plan::TensorId;

void CpuProgram::launch(const exec::Call& call, size_t input_slot, size_t output_slot) {
  flush_denormals();
  const SingleThreadedLibraries single;
  const Workers::Use use(workers_);
  const Turn turn{call, input_slot, output_slot};
  if (call.segment == 0) begin(turn);
  if (shards_ > 1) run_shards(turn);
  run_steps(call.segment == 0 ? shard_steps_ : segments_[call.segment - 1], segments_[call.segment],
            turn);
  if (ranks_) finish_updates(turn);
  if (ranks_) gather_outputs(turn);
  if (rank_fingerprints_ && turn.call.fingerprints)
    rank_fingerprints_->merge(fingerprints_.taken(output_slot));
  clock_.end(output_slot);
  throw_failure();
}

void CpuProgram::begin(const Turn& turn) {
  faults_[turn.output_slot].reset();
  for (const TensorId id : streamed_) exec::broadcast(*ranks_, 0, input(id, turn.input_slot));
  point_to_inputs(turn);
  clock_.begin(turn.output_slot);
  deliver(early_, turn);
  if (turn.call.fingerprints) {
    fingerprints_.begin(turn.output_slot);
    take_fingerprints(fingerprints_.plan().of_step(exec::FingerprintPlan::kFound), turn);
  }
  clock_.stamp(turn.output_slot, 0, !early_.empty());
}

/// Takes fingerprints of the tensors that a step has made. For the steps of shards, this happens
/// for each shard; for combined tensors, after the last shard.
void CpuProgram::take_fingerprints(std::span<const ProgramFingerprints::Entry> entries,
                                   const Turn& turn) {
  for (const ProgramFingerprints::Entry& entry : entries) {
    const size_t index = entry.tensor.index();
    const TensorInfo& tensor = tensors_[index];
    const exec::FingerprintPlan::Part& part = entry.part;
    if (part.elements == 0) continue;
    fingerprints_.take(threads_, entry, turn.call.step, turn.output_slot,
                       {tensor.dtype, tensor.shape, layouts_[index],
                        address(entry.tensor, turn.input_slot) + part.offset, part.elements});
  }
}

void CpuProgram::point_to_inputs(const Turn& turn) {
  for (const InputPointer& input : input_pointers_)
    *input.pointer = inputs_.data() + turn.input_slot * input_stride_ + input.offset +
                     static_cast<size_t>(turn.shard) * input.shard_bytes;
}

void CpuProgram::run_shards(const Turn& turn) {
  const auto made = [&](size_t entry) {
    return runs(sums_.shards->entries()[entry].step, turn.call);
  };
  if (sums_.ranks) sums_.ranks->begin(made);
  for (int64_t shard = first_shard_; shard < end_shard_; ++shard) {
    const Turn one{turn.call, turn.input_slot, turn.output_slot, shard};
    point_to_inputs(one);
    run_steps(0, shard_steps_, one);
    combine(one);
  }
  if (sums_.ranks) finish_sums(turn);
  deliver(wholes_, turn);
  if (turn.call.fingerprints)
    take_fingerprints(fingerprints_.plan().of_step(exec::FingerprintPlan::kCombined), turn);
  clock_.stamp(turn.output_slot, 1 + shard_steps_, true);
}

bool CpuProgram::runs(size_t step, const exec::Call& call) const {
  const auto wanted = [&call](size_t index) { return call.wanted[index] != 0; };
  return !steps_[step].probe || std::ranges::any_of(steps_[step].wanted_by, wanted);
}

void CpuProgram::run_steps(size_t first, size_t end, const Turn& turn) {
  const CallState state{turn.call.step, turn.call.learning_rate, turn.shard,
                        &faults_[turn.output_slot], turn.call.pass};
  for (size_t i = first; i < end; ++i) {
    const BoundStep& step = steps_[i];
    const bool ran = runs(i, turn.call);
    if (ran) {
      if (turn.call.fingerprints) take_fingerprints(fingerprints_.plan().before_step(i), turn);
      for (const BoundAction& action : step.actions)
        action.launch({action.inputs, action.outputs, action.epilogue_spans, action.workspace},
                      state);
      if (turn.call.fingerprints) take_fingerprints(fingerprints_.plan().of_step(i), turn);
      if (step.update) sums_.ranks->updated(step.update->entry);
      deliver(step.deliveries, turn);
    }
    clock_.stamp(turn.output_slot, timed_index(i),
                 ran && !(step.actions.empty() && step.deliveries.empty()));
    if (ranks_ && turn.shard + 1 == end_shard_ && end <= shard_steps_) add_totals(i, turn);
  }
}

/// Adds the totals of a rank's last shard. They are exchanged while later steps run.
void CpuProgram::add_totals(size_t step, const Turn& turn) {
  if (!runs(step, turn.call)) return;
  for (size_t i = steps_[step].first_sum; i < steps_[step].end_sum; ++i) {
    const TensorId tensor = sums_.shards->entries()[i].tensor;
    sums_.shards->add(threads_, i, turn.shard - first_shard_, address(tensor),
                      sums_.ranks->total(i));
    sums_.ranks->complete(i);
  }
  sums_.ranks->advance();
}

void CpuProgram::combine(const Turn& turn) {
  if (ranks_ && turn.shard + 1 == end_shard_) return;
  const std::span<const ShardSums::Entry> entries = sums_.shards->entries();
  for (size_t i = 0; i < entries.size(); ++i)
    if (runs(entries[i].step, turn.call))
      sums_.shards->add(threads_, i, turn.shard - first_shard_, address(entries[i].tensor),
                        nullptr);
  clock_.stamp(turn.output_slot, 1 + shard_steps_, true);
}

/// In a timed call, the wait for other ranks and the exchange are measured separately.
void CpuProgram::finish_sums(const Turn& turn) {
  if (!timed_steps_.empty()) {
    clock_.stamp(turn.output_slot, 1 + shard_steps_, true);
    exec::agree(*ranks_, 0);
    clock_.stamp(turn.output_slot, 2 + shard_steps_, true);
  }
  sums_.ranks->finish();
  clock_.stamp(turn.output_slot, 3 + shard_steps_, true);
}

/// Each rank has updated a slice of each of these variables.
void CpuProgram::finish_updates(const Turn& turn) {
  if (sums_.division.updates().empty()) return;
  sums_.ranks->finish_updates();
  clock_.stamp(turn.output_slot, timed_index(steps_.size()), true);
}

/// Collects the deliveries of shards on rank 0, and shares faults with all ranks.
void CpuProgram::gather_outputs(const Turn& turn) {
  ranked_->gather(outputs_.data() + turn.output_slot * output_stride_, turn.call.wanted);
  exec::agree_on_fault(*ranks_, faults_[turn.output_slot]);
}

void CpuProgram::deliver(const std::vector<CopyOut>& deliveries, const Turn& turn) const {
  const bool again = turn.shard > first_shard_;
  for (const CopyOut& delivery : deliveries)
    if (turn.call.wanted[delivery.index] && (!again || delivery.place.per_shard > 0))
      copy_out(delivery, turn);
}

void CpuProgram::copy_out(const CopyOut& delivery, const Turn& turn) const {
  const size_t index = delivery.tensor.index(), element = size_of(tensors_[index].dtype);
  const auto bytes = [element](int64_t elements) {
    return static_cast<size_t>(elements) * element;
  };
  const Shape& shape = tensors_[index].shape;
  const WholeIndex& place = delivery.place;
  const std::byte* from = address(delivery.tensor, turn.input_slot, turn.shard);
  std::byte* to = outputs_.data() + turn.output_slot * output_stride_ + delivery.offset;
  if (place.run == shape.elements())
    return reorder(threads_, element, shape, layouts_[index], from, Layout::kPlain,
                   to + bytes(turn.shard * place.per_shard));
  for (int64_t i = 0; i < shape.elements(); i += place.run)
    std::memcpy(to + bytes(place.at(i, turn.shard)), from + bytes(i), bytes(place.run));
}

}  // namespace flow::cpu
