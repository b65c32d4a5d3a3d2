// Takes the fingerprints of tensors after the steps that make them.
#include "runtime/cuda/program/program_fingerprints.h"

#include <algorithm>
#include <optional>

#include "runtime/cuda/program/graph_capture.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

using exec::FingerprintPlan;
using plan::TensorId;

const Version* find_version(const Versions& versions, TensorId made) {
  const auto found = std::ranges::find(versions, made, &Version::made);
  return found == versions.end() ? nullptr : &*found;
}

/// Returns the slice of a divided gradient, because each rank has only the sums of its slice.
exec::TensorSlice combined_slice(const PreparedJob& job, TensorId id) {
  for (const exec::SlicedUpdate& sliced : job.division.updates())
    if (const TensorId summed = job.sums.entries[sliced.entry].tensor;
        job.owners[summed.index()] == job.owners[id.index()])
      return {sliced.bounds, sliced.elements(), static_cast<size_t>(sliced.first) * sizeof(float)};
  return {};
}

class PartFinder {
 public:
  PartFinder(const PreparedJob& job, const exec::Collectives* ranks)
      : job_(job), rank_(ranks ? ranks->rank() : 0), by_shards_(tensors_of_shards(plan())) {}

  FingerprintPlan::Part of(size_t step, TensorId id) const {
    const int64_t elements = plan()[id].shape.elements();
    const bool is_combined = step == FingerprintPlan::kCombined;
    if (by_shards_[id.index()] && !is_combined) return {job_.first_shard * elements, elements, 0};
    const exec::TensorSlice slice = is_combined ? combined_slice(job_, id)
                                    : step == FingerprintPlan::kFound
                                        ? job_.division.slot(id)
                                        : job_.division.slice(step, id);
    return exec::part_of_rank(slice, elements, rank_);
  }

 private:
  const plan::Job& plan() const { return job_.grouped.job; }

  const PreparedJob& job_;
  const int rank_;
  const std::vector<bool> by_shards_;
};

/// Returns the tensor of the plan, which is one of the first `tensors`, whose fingerprint is taken
/// from `id`, or an invalid id if there is none. A version of a tensor that shards combine does not
/// count, because only the plan's tensor is whole.
TensorId shown_as(TensorId id, const PreparedJob& prepared, size_t tensors) {
  if (id.index() < tensors) return id;
  for (const Version& version : prepared.versions)
    if (version.made == id && version.of.index() < tensors &&
        !prepared.grouped.job[version.of].combine)
      return version.of;
  return {};
}

}  // namespace

FingerprintPlan plan_fingerprints(const PreparedJob& prepared, const exec::Collectives* ranks,
                                  size_t tensors) {
  const plan::Job& job = prepared.grouped.job;
  const PartFinder parts(prepared, ranks);
  return FingerprintPlan(job,
                         {[&](size_t step) {
                            return !job.steps[step].probe &&
                                   !exec::is_view(job.steps[step], prepared.owners);
                          },
                          [&](size_t step, TensorId id) { return parts.of(step, id); },
                          [&](TensorId id) { return shown_as(id, prepared, tensors); }},
                         prepared.transferred);
}

size_t fingerprint_bytes(const FingerprintPlan& plan) {
  if (plan.tensors().empty()) return 0;
  return aligned(plan.tensors().size() * sizeof(Fingerprint)) + fingerprint_workspace();
}

ProgramFingerprints::ProgramFingerprints(const PreparedJob& job, const ProgramMemory& memory)
    : memory_(memory),
      count_(job.fingerprints.tensors().size()),
      made_(reinterpret_cast<Fingerprint*>(memory.arena() + job.fingerprints_offset)),
      workspace_(memory.arena() + job.fingerprints_offset + aligned(count_ * sizeof(Fingerprint))),
      found_(tensors_of(job, FingerprintPlan::kFound)),
      combined_(tensors_of(job, FingerprintPlan::kCombined)) {
  for (size_t step = 0; step < job.grouped.job.steps.size(); ++step)
    of_steps_.push_back(tensors_of(job, step));
}

ProgramFingerprints::Tensors ProgramFingerprints::tensors_of(const PreparedJob& prepared,
                                                             size_t step) const {
  const plan::Job& job = prepared.grouped.job;
  const std::vector<bool> by_shards = tensors_of_shards(job);
  Tensors made;
  for (const FingerprintPlan::Entry& entry : prepared.fingerprints.of_step(step)) {
    if (entry.part.elements == 0) continue;
    const TensorId id = entry.tensor, shown = prepared.fingerprints.tensors()[entry.at];
    const Version* version = id == shown ? nullptr : find_version(prepared.versions, id);
    made.push_back({{.dtype = job[id].dtype,
                     .shown = job[shown].dtype,
                     .shape = job[shown].shape,
                     .channels_last = version && version->channels_last,
                     .data = memory_.address(prepared.places[id.index()]) + entry.part.offset,
                     .elements = entry.part.elements,
                     .first = entry.part.first},
                    entry.at,
                    by_shards[id.index()]});
  }
  return made;
}

void ProgramFingerprints::take(const Tensor& tensor, const LaunchState& state) const {
  take_fingerprint(tensor.source, made_ + tensor.at, workspace_, state);
}

void ProgramFingerprints::begin(const LaunchState& state) const {
  clear_fingerprints(made_, static_cast<int64_t>(count_), state);
}

void ProgramFingerprints::take_found(bool of_shards, const LaunchState& state) const {
  for (const Tensor& tensor : found_)
    if (tensor.of_shards == of_shards) take(tensor, state);
}

void ProgramFingerprints::take_combined(const LaunchState& state) const {
  for (const Tensor& tensor : combined_) take(tensor, state);
}

void ProgramFingerprints::take_steps(size_t first, size_t end, const LaunchState& state) const {
  for (size_t step = first; step < end; ++step)
    for (const Tensor& tensor : of_steps_[step]) take(tensor, state);
}

void ProgramFingerprints::copy_to_host(size_t output_slot, const LaunchState& state) const {
  state.driver.copy(memory_.fingerprints(output_slot).data(), made_, count_ * sizeof(Fingerprint),
                    state.stream);
}

}  // namespace flow::cuda
