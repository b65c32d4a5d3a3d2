// Calls that several ranks run together.
#include "runtime/cuda/program/program_ranks.h"

#include <algorithm>

#include "runtime/base/index_maps.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

using plan::TensorId;

/// Describes the deliveries that come from shards.
exec::RankOutputs outputs_of_ranks(exec::Collectives& ranks, const plan::Job& job,
                                   std::span<const TensorId> deliverables,
                                   const OutputLayout& layout) {
  const int64_t shards = plan::shards_of(job);
  const std::vector<bool> by_shards = tensors_of_shards(job);
  exec::RankOutputs outputs(ranks, shards);
  for (size_t i = 0; i < deliverables.size(); ++i) {
    const TensorId id = deliverables[i];
    if (!id.valid() || !by_shards[id.index()]) continue;
    const plan::Tensor& tensor = job[id];
    const OutputLayout::Output& output = layout.outputs[i];
    if (tensor.batch_axis == 0) outputs.add(i, output.offset, exec::whole_bytes_of(job, tensor));
    if (!output.parts) continue;
    std::optional<exec::RankOutputs::Spread> spread;
    if (output.spread)
      spread = {output.offset, whole_index(tensor.shape, tensor.batch_axis, shards),
                tensor.shape.elements(), size_of(tensor.dtype)};
    outputs.add(i, *output.parts, output.part_bytes * static_cast<size_t>(shards), spread);
  }
  return outputs;
}

/// Returns the addresses of each tensor that is summed, and of the variable that it updates.
std::vector<RankSums::Addresses> addresses_of(const PreparedJob& job, const ProgramMemory& memory) {
  const auto address = [&](TensorId id) { return memory.address(job.places[id.index()]); };
  std::vector<RankSums::Addresses> addresses;
  for (const SumPlan::Entry& entry : job.sums.entries) addresses.push_back({address(entry.tensor)});
  for (const exec::SlicedUpdate& sliced : job.division.updates())
    addresses[sliced.entry].variable = address(sliced.update.variable);
  return addresses;
}

}  // namespace

ProgramRanks::ProgramRanks(Driver& driver, Communicator& communicator, const PreparedJob& prepared,
                           const exec::PrepareOptions& options, const ProgramMemory& memory)
    : ranks_(*options.ranks),
      communicator_(communicator),
      sums_(driver, communicator, ranks_, prepared.grouped.job, prepared.sums, prepared.rank_sums,
            memory.arena() + prepared.rank_sums_offset, addresses_of(prepared, memory)),
      outputs_(outputs_of_ranks(ranks_, prepared.grouped.job, options.deliverables,
                                memory.output_layout())),
      slots_(prepared.division, ranks_),
      streamed_(options.streamed),
      faults_(std::max<size_t>(1, options.output_slots)),
      wanted_(options.deliverables.size()) {
  if (options.fingerprints) fingerprints_.emplace(ranks_);
}

void ProgramRanks::connect(Stream stream) {
  calling_ = true;
  communicator_.connect();
  sums_.rehearse(stream);
  calling_ = false;
}

void ProgramRanks::begin(const exec::Call& call) {
  calling_ = true;
  takes_fingerprints_ = call.fingerprints;
  std::ranges::copy(call.wanted, wanted_.begin());
}

void ProgramRanks::share(std::span<std::byte> bytes) { exec::broadcast(ranks_, 0, bytes); }

void ProgramRanks::finish(const ProgramMemory& memory, size_t output_slot,
                          const std::optional<exec::Fault>& found) {
  if (!calling_) return;
  outputs_.gather(memory.host_outputs(output_slot), wanted_);
  std::optional<exec::Fault>& fault = faults_[output_slot];
  fault = found;
  exec::agree_on_fault(ranks_, fault);
  if (takes_fingerprints_) fingerprints_->merge(memory.fingerprints(output_slot));
  calling_ = false;
}

void ProgramRanks::give_up() noexcept {
  if (calling_) communicator_.abort();
}

}  // namespace flow::cuda
