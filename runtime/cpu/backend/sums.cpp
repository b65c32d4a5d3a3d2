// Plans the sums, and divides the updates of gradients whose buckets are large enough. Buckets are
// exchanged, added and gathered.
#include "runtime/cpu/backend/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::cpu {
namespace {

size_t aligned_to_line(size_t bytes) { return round_up(bytes, 64); }

std::vector<exec::CombinedTensor> describe(std::span<const ShardSums::Entry> entries,
                                           std::span<const RankSums::Traits> traits) {
  std::vector<exec::CombinedTensor> tensors;
  for (size_t i = 0; i < entries.size(); ++i)
    tensors.push_back({entries[i].elements, entries[i].total_size, size_of(entries[i].dtype),
                       traits[i].probe, traits[i].divided});
  return tensors;
}

/// Returns true if the gradients are stored in C order, which slices require.
bool is_plain(const SumsRequest& request, const exec::DividedUpdate& update) {
  return std::ranges::all_of(update.steps, [&](size_t step) {
    const size_t gradient = request.job.steps[step].inputs[0].index();
    return request.layouts[gradient] == Layout::kPlain ||
           layouts_coincide(request.job.tensors[gradient].shape);
  });
}

std::vector<exec::SlicedUpdate> find_updates(const SumsRequest& request, const ShardSums& sums) {
  if (!request.divides) return {};
  std::vector<plan::TensorId> entries;
  for (const ShardSums::Entry& entry : sums.entries()) entries.push_back(entry.tensor);
  std::vector<exec::SlicedUpdate> updates =
      exec::find_sliced_updates(request.job, request.owners, request.deliverables, entries);
  std::erase_if(
      updates, [&](const exec::SlicedUpdate& sliced) { return !is_plain(request, sliced.update); });
  return updates;
}

/// Returns true if no step of a shard uses the memory of the entry's tensor after the step that
/// makes it.
bool is_final(const SumsRequest& request, const ShardSums::Entry& entry) {
  const auto is_same = [&](plan::TensorId id) {
    return id.valid() && request.owners[id.index()] == request.owners[entry.tensor.index()];
  };
  const std::span<const plan::Step> later =
      std::span(request.job.steps)
          .subspan(entry.step + 1, request.job.sharding->steps.index() - entry.step - 1);
  return std::ranges::none_of(later, [&](const plan::Step& step) {
    bool uses = std::ranges::any_of(step.outputs, is_same);
    plan::visit_operands(step, [&](plan::TensorId id) { uses = uses || is_same(id); });
    return uses;
  });
}

/// Throws RunError if a tensor is too large to exchange, because libraries count the bytes of an
/// operation in an int.
void require_exchangeable(const plan::Job& job, const ShardSums& sums) {
  for (const ShardSums::Entry& entry : sums.entries()) {
    const size_t bytes = static_cast<size_t>(entry.elements) * entry.total_size;
    if (bytes > exec::Collectives::kMostBytes)
      throw RunError(fmt::format("{}: `{}` has {} to add up; ranks exchange at most {} of a tensor",
                                 job[entry.tensor].where, job[entry.tensor].name,
                                 human_bytes(bytes), human_bytes(exec::Collectives::kMostBytes)),
                     "use one process");
  }
}

}  // namespace

RankSums::RankSums(const ShardSums& sums, std::span<const Traits> traits, exec::Collectives& ranks,
                   int threads)
    : sums_(sums),
      ranks_(ranks),
      threads_(threads),
      buckets_(exec::make_buckets(describe(sums.entries(), traits), ranks.size())),
      states_(buckets_.size()),
      bucket_of_(sums.entries().size()),
      tensors_(sums.entries().size()),
      variables_(sums.entries().size()),
      parts_(static_cast<size_t>(ranks.size())) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const exec::Bucket& bucket = buckets_[i];
    plan(i, bucket.divided && bucket.tensors.size() == 1 && traits[bucket.tensors[0]].final);
  }
}

/// Plans a bucket with offsets, which are replaced by addresses once the memory is allocated.
void RankSums::plan(size_t index, bool in_place) {
  const exec::Bucket& bucket = buckets_[index];
  State& state = states_[index];
  for (const size_t entry : bucket.tensors) bucket_of_[entry] = index;
  const auto rank = static_cast<size_t>(ranks_.rank());
  state.send_offsets = bucket.total_starts;
  state.send_bytes = bucket.total_lengths;
  state.receive_bytes.assign(parts_.size(), std::exchange(state.send_bytes[rank], 0));
  state.receive_bytes[rank] = 0;
  for (const size_t bytes : state.receive_bytes) {
    state.receive_offsets.push_back(state.received_bytes);
    state.received_bytes += aligned_to_line(bytes);
  }
  state.in_place = in_place;
  const bool has_totals = !in_place || sums_.shards_here() > 1;
  state.total_bytes = has_totals ? bucket.total_bytes : 0;
  state.whole_bytes = in_place ? 0 : bucket.whole_bytes;
  bytes_ += state.total_bytes + state.received_bytes + state.whole_bytes;
}

void RankSums::use(std::byte* memory, const Address& tensor, const Address& variable) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const exec::Bucket& bucket = buckets_[i];
    for (const size_t entry : bucket.tensors) {
      tensors_[entry] = tensor(entry);
      if (bucket.divided) variables_[entry] = variable(entry);
    }
    State& state = states_[i];
    const size_t first = bucket.tensors[0];
    state.totals = state.total_bytes > 0 ? memory : tensors_[first];
    state.received = memory += state.total_bytes;
    memory += state.received_bytes;
    state.wholes = state.in_place ? tensors_[first] : memory;
    state.gathered = state.in_place ? variables_[first] : memory;
    memory += state.whole_bytes;
  }
}

/// Returns the position of an entry in its bucket.
size_t RankSums::place_of(size_t entry) const {
  return buckets_[bucket_of_[entry]].place_of(entry);
}

std::byte* RankSums::total(size_t entry) const {
  const size_t bucket = bucket_of_[entry];
  return states_[bucket].totals + buckets_[bucket].total_offsets[place_of(entry)];
}

void RankSums::begin(const std::function<bool(size_t entry)>& made) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    states_[i].incomplete = buckets_[i].tensors.size();
    states_[i].phase = made(buckets_[i].tensors.front()) ? Phase::kComputing : Phase::kDone;
  }
}

void RankSums::complete(size_t entry) {
  const size_t bucket = bucket_of_[entry];
  FLOW_CHECK(states_[bucket].incomplete > 0, "entry {} is complete twice", entry);
  if (--states_[bucket].incomplete == 0) start(bucket);
}

void RankSums::start(size_t bucket) {
  State& state = states_[bucket];
  state.operation = ranks_.exchange({state.totals, state.send_offsets, state.send_bytes},
                                    {state.received, state.receive_offsets, state.receive_bytes});
  state.phase = Phase::kExchanging;
}

/// Results are gathered in the order of buckets, which is the same on all ranks.
void RankSums::advance() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Phase phase = states_[i].phase;
    if (phase == Phase::kDone || phase == Phase::kGathering) continue;
    if (phase == Phase::kComputing || !ranks_.test(states_[i].operation)) return;
    advance(i);
  }
}

/// Adds up a bucket whose totals have been exchanged.
void RankSums::advance(size_t index) {
  const exec::Bucket& bucket = buckets_[index];
  State& state = states_[index];
  add_up(index);
  state.phase = Phase::kDone;
  if (!bucket.small && !bucket.divided) gather(index);
}

void RankSums::gather(size_t index) {
  const exec::Bucket& bucket = buckets_[index];
  State& state = states_[index];
  state.operation = ranks_.gather({state.gathered, bucket.whole_starts, bucket.whole_lengths});
  state.phase = Phase::kGathering;
}

void RankSums::add_up(size_t index) {
  const exec::Bucket& bucket = buckets_[index];
  const auto rank = static_cast<size_t>(ranks_.rank());
  for (const exec::Slice& slice : bucket.slices[rank])
    add_up(index, slice, bucket.total_starts[rank]);
}

/// `start` is the offset of this rank's slices among the totals.
void RankSums::add_up(size_t index, const exec::Slice& slice, size_t start) {
  const exec::Bucket& bucket = buckets_[index];
  const State& state = states_[index];
  const ShardSums::Entry& entry = sums_.entries()[slice.tensor];
  const size_t place = place_of(slice.tensor), first = static_cast<size_t>(slice.first);
  const size_t offset = bucket.total_offsets[place] + first * entry.total_size - start;
  for (size_t rank = 0; rank < parts_.size(); ++rank)
    parts_[rank] = state.received + state.receive_offsets[rank] + offset;
  parts_[static_cast<size_t>(ranks_.rank())] = state.totals + start + offset;
  sums_.join_ranks(threads_, slice.tensor, slice.first, slice.end, parts_,
                   whole(slice.tensor, slice.first));
}

/// Returns the address of the elements of a result starting with `first`.
std::byte* RankSums::whole(size_t entry, int64_t first) const {
  const size_t bucket = bucket_of_[entry];
  return states_[bucket].wholes + buckets_[bucket].whole_offsets[place_of(entry)] +
         static_cast<size_t>(first) * size_of(sums_.entries()[entry].dtype);
}

void RankSums::finish() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (states_[i].phase == Phase::kExchanging) {
      exec::wait(ranks_, states_[i].operation);
      advance(i);
    }
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    State& state = states_[i];
    if (state.phase == Phase::kGathering) exec::wait(ranks_, state.operation);
    if (state.incomplete == 0 && !state.in_place) write(i);
    state.incomplete = buckets_[i].tensors.size();
    state.phase = buckets_[i].divided ? Phase::kUpdating : Phase::kIdle;
  }
}

void RankSums::write(size_t index) const {
  const exec::Bucket& bucket = buckets_[index];
  if (bucket.divided)
    for (const exec::Slice& slice : bucket.slices[static_cast<size_t>(ranks_.rank())])
      write(slice, tensors_[slice.tensor]);
  else
    for (const size_t entry : bucket.tensors)
      write({entry, 0, sums_.entries()[entry].elements}, tensors_[entry]);
}

void RankSums::write(const exec::Slice& slice, std::byte* tensor) const {
  const size_t size = size_of(sums_.entries()[slice.tensor].dtype);
  std::memcpy(tensor + static_cast<size_t>(slice.first) * size, whole(slice.tensor, slice.first),
              static_cast<size_t>(slice.end - slice.first) * size);
}

void RankSums::updated(size_t entry) {
  const size_t index = bucket_of_[entry], size = size_of(sums_.entries()[entry].dtype);
  FLOW_CHECK(states_[index].phase == Phase::kUpdating, "entry {} is updated twice", entry);
  const std::vector<exec::Slice>& slices =
      buckets_[index].slices[static_cast<size_t>(ranks_.rank())];
  const auto own = std::ranges::find(slices, entry, &exec::Slice::tensor);
  if (own != slices.end() && !states_[index].in_place)
    std::memcpy(whole(entry, own->first),
                variables_[entry] + static_cast<size_t>(own->first) * size,
                static_cast<size_t>(own->end - own->first) * size);
  if (--states_[index].incomplete == 0) gather(index);
}

void RankSums::finish_updates() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (!buckets_[i].divided) continue;
    FLOW_CHECK(states_[i].phase == Phase::kGathering, "bucket {} is not updated", i);
    exec::wait(ranks_, states_[i].operation);
    for (size_t rank = 0; rank < parts_.size() && !states_[i].in_place; ++rank)
      if (rank != static_cast<size_t>(ranks_.rank()))
        for (const exec::Slice& slice : buckets_[i].slices[rank])
          write(slice, variables_[slice.tensor]);
    states_[i].phase = Phase::kIdle;
  }
}

Sums make_sums(const SumsRequest& request) {
  Sums sums;
  if (!request.job.sharding) return sums;
  const int ranks = request.ranks ? request.ranks->size() : 1;
  sums.shards = std::make_unique<ShardSums>(request.job, request.owners, ranks);
  if (!request.ranks) return sums;
  require_exchangeable(request.job, *sums.shards);
  std::vector<exec::SlicedUpdate> updates = find_updates(request, *sums.shards);
  std::vector<RankSums::Traits> traits;
  for (const ShardSums::Entry& entry : sums.shards->entries())
    traits.push_back(
        {.probe = request.job.steps[entry.step].probe, .final = is_final(request, entry)});
  for (const exec::SlicedUpdate& update : updates) traits[update.entry].divided = true;
  sums.ranks = std::make_unique<RankSums>(*sums.shards, traits, *request.ranks, request.threads);
  sums.division =
      exec::Division(request.job, std::move(updates), sums.ranks->buckets(), request.ranks->rank());
  return sums;
}

}  // namespace flow::cpu
