// Which tensors of a program have fingerprints.
#include "runtime/cpu/backend/program_fingerprints.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/plan/model/shards.h"

namespace flow::cpu {

using plan::TensorId;

ProgramFingerprints::ProgramFingerprints(const plan::Job& job,
                                         const std::function<bool(size_t step)>& writes,
                                         const PartOf& part_of, size_t output_slots, Made made)
    : of_steps_(job.steps.size()), made_(std::move(made)) {
  const auto find = [&](TensorId id) { add(job, id, part_of(kFound, id), found_); };
  for (const plan::Input& input : job.inputs) find(input.tensor);
  for (const plan::Variable& variable : job.variables) find(variable.tensor);
  const size_t shard_steps = job.sharding ? job.sharding->steps.index() : 0;
  for (size_t step = 0; step < job.steps.size(); ++step) {
    if (!writes(step)) continue;
    for (const TensorId id : job.steps[step].outputs) {
      if (!id.valid()) continue;
      const bool is_combined = step < shard_steps && job[id].combine;
      add(job, id, part_of(is_combined ? kCombined : step, id),
          is_combined ? combined_ : of_steps_[step]);
    }
  }
  taken_.assign(output_slots, std::vector<Fingerprint>(tensors_.size()));
}

void ProgramFingerprints::add(const plan::Job& job, TensorId tensor, const Part& part,
                              std::vector<Entry>& to) {
  to.push_back({tensor, tensors_.size(), part});
  tensors_.push_back(tensor);
  chunks_.resize(std::max(chunks_.size(), fingerprint_chunks(plan::whole_shape(job, job[tensor]))));
}

void ProgramFingerprints::begin(size_t output_slot) {
  std::ranges::fill(taken_[output_slot], Fingerprint());
}

void ProgramFingerprints::take(int threads, const Entry& entry, int64_t step, size_t output_slot,
                               const FingerprintSource& source) {
  if (made_)
    made_(step, entry.tensor,
          {const_cast<std::byte*>(source.data),
           static_cast<size_t>(source.elements) * size_of(source.dtype)});
  const auto begin = std::chrono::steady_clock::now();
  taken_[output_slot][entry.at].merge(fingerprint_of(threads, source, chunks_));
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace flow::cpu
