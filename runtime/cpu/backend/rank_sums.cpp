// Buckets on their way: exchanged, added up, gathered.
#include "runtime/cpu/backend/rank_sums.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/array.h"
#include "runtime/base/ceil_div.h"
#include "runtime/base/check.h"
#include "runtime/exec/ranks/together.h"

namespace flow::cpu {
namespace {

size_t aligned_to_line(size_t bytes) { return round_up(bytes, 64); }

std::vector<exec::CombinedTensor> describe(std::span<const ShardSums::Entry> entries,
                                           std::span<const uint8_t> probes) {
  std::vector<exec::CombinedTensor> tensors;
  for (size_t i = 0; i < entries.size(); ++i)
    tensors.push_back(
        {entries[i].elements, entries[i].total_size, size_of(entries[i].dtype), probes[i] != 0});
  return tensors;
}

}  // namespace

RankSums::RankSums(const ShardSums& sums, std::span<const uint8_t> probes, exec::Collectives& ranks,
                   int threads)
    : sums_(sums),
      ranks_(ranks),
      threads_(threads),
      buckets_(exec::make_buckets(describe(sums.entries(), probes), ranks.size())),
      states_(buckets_.size()),
      bucket_of_(sums.entries().size()),
      parts_(static_cast<size_t>(ranks.size())) {
  for (size_t i = 0; i < buckets_.size(); ++i) plan(i);
}

/// Offsets stand for addresses until the memory is there.
void RankSums::plan(size_t index) {
  const exec::Bucket& bucket = buckets_[index];
  State& state = states_[index];
  for (const size_t entry : bucket.tensors) bucket_of_[entry] = index;
  const size_t own =
      bucket.small ? bucket.total_bytes : bucket.total_lengths[static_cast<size_t>(ranks_.rank())];
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    state.receive_offsets.push_back(rank * aligned_to_line(own));
    state.receive_bytes.push_back(own);
  }
  state.send_offsets = bucket.small ? std::vector<size_t>(parts_.size()) : bucket.total_starts;
  state.send_bytes =
      bucket.small ? std::vector(parts_.size(), bucket.total_bytes) : bucket.total_lengths;
  bytes_ += bucket.total_bytes + parts_.size() * aligned_to_line(own) + bucket.whole_bytes;
}

void RankSums::use(std::byte* memory) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    State& state = states_[i];
    state.totals = memory;
    state.received = memory += buckets_[i].total_bytes;
    state.wholes = memory += parts_.size() * aligned_to_line(state.receive_bytes[0]);
    memory += buckets_[i].whole_bytes;
  }
}

/// The position of an entry in its bucket.
size_t RankSums::place_of(size_t entry) const {
  const std::vector<size_t>& tensors = buckets_[bucket_of_[entry]].tensors;
  return static_cast<size_t>(std::ranges::find(tensors, entry) - tensors.begin());
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

/// Results are gathered in the order of buckets, as on all ranks.
void RankSums::advance() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Phase phase = states_[i].phase;
    if (phase == Phase::kDone || phase == Phase::kGathering) continue;
    if (phase == Phase::kComputing || !ranks_.test(states_[i].operation)) return;
    advance(i);
  }
}

/// Of a bucket whose totals have been exchanged.
void RankSums::advance(size_t index) {
  const exec::Bucket& bucket = buckets_[index];
  State& state = states_[index];
  add_up(index);
  state.phase = bucket.small ? Phase::kDone : Phase::kGathering;
  if (!bucket.small)
    state.operation = ranks_.gather({state.wholes, bucket.whole_starts, bucket.whole_lengths});
}

void RankSums::add_up(size_t index) {
  const exec::Bucket& bucket = buckets_[index];
  if (bucket.small)
    for (const size_t entry : bucket.tensors)
      add_up(index, {entry, 0, sums_.entries()[entry].elements}, 0);
  else
    for (const exec::Slice& slice : bucket.slices[static_cast<size_t>(ranks_.rank())])
      add_up(index, slice, bucket.total_starts[static_cast<size_t>(ranks_.rank())]);
}

/// `start`: where among the totals lies what was received.
void RankSums::add_up(size_t index, const exec::Slice& slice, size_t start) {
  const exec::Bucket& bucket = buckets_[index];
  const State& state = states_[index];
  const ShardSums::Entry& entry = sums_.entries()[slice.tensor];
  const size_t place = place_of(slice.tensor), first = static_cast<size_t>(slice.first);
  const size_t offset = bucket.total_offsets[place] + first * entry.total_size - start;
  for (size_t rank = 0; rank < parts_.size(); ++rank)
    parts_[rank] = state.received + state.receive_offsets[rank] + offset;
  sums_.join_ranks(threads_, slice.tensor, slice.first, slice.end, parts_,
                   state.wholes + bucket.whole_offsets[place] + first * size_of(entry.dtype));
}

void RankSums::finish(const std::function<std::byte*(size_t entry)>& address) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (states_[i].phase == Phase::kExchanging) {
      exec::wait(ranks_, states_[i].operation);
      advance(i);
    }
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    State& state = states_[i];
    if (state.phase == Phase::kGathering) exec::wait(ranks_, state.operation);
    if (state.incomplete == 0) write(i, address);
    state.phase = Phase::kIdle;
  }
}

void RankSums::write(size_t index, const std::function<std::byte*(size_t entry)>& address) {
  const exec::Bucket& bucket = buckets_[index];
  for (size_t i = 0; i < bucket.tensors.size(); ++i) {
    const ShardSums::Entry& entry = sums_.entries()[bucket.tensors[i]];
    std::memcpy(address(bucket.tensors[i]), states_[index].wholes + bucket.whole_offsets[i],
                static_cast<size_t>(entry.elements) * size_of(entry.dtype));
  }
}

}  // namespace flow::cpu
