// Which tensors of a program have fingerprints.
#include "runtime/cpu/backend/program_fingerprints.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/plan/model/shards.h"

namespace flow::cpu {

using plan::TensorId;

ProgramFingerprints::ProgramFingerprints(const plan::Job& job, exec::FingerprintPlan plan,
                                         size_t output_slots, Made made)
    : plan_(std::move(plan)), made_(std::move(made)) {
  size_t chunks = 0;
  for (const TensorId id : tensors())
    chunks = std::max(chunks, fingerprint_chunks(plan::whole_shape(job, job[id])));
  chunks_.resize(chunks);
  taken_.assign(output_slots, std::vector<Fingerprint>(tensors().size()));
}

void ProgramFingerprints::begin(size_t output_slot) {
  std::ranges::fill(taken_[output_slot], Fingerprint());
}

void ProgramFingerprints::take(int threads, const Entry& entry, int64_t step, size_t output_slot,
                               FingerprintSource source) {
  if (made_)
    made_(step, entry.tensor,
          {const_cast<std::byte*>(source.data),
           static_cast<size_t>(source.elements) * size_of(source.dtype)});
  const auto begin = std::chrono::steady_clock::now();
  Fingerprint& taken = taken_[output_slot][entry.at];
  source.first = entry.part.first + taken.count;
  taken.merge(fingerprint_of(threads, source, chunks_));
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace flow::cpu
