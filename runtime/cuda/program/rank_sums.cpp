// Plans the tensors that are summed over shards, and moves buckets of them from GPU to GPU, where
// they are exchanged, added and gathered.
#include "runtime/cuda/program/rank_sums.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/cuda/loops/shard_sums.h"
#include "runtime/cuda/program/program_memory.h"
#include "runtime/exec/ranks/buckets.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

std::vector<exec::CombinedTensor> describe(const plan::Job& job, const SumPlan& sums,
                                           std::span<const exec::SlicedUpdate> updates) {
  std::vector<exec::CombinedTensor> tensors;
  for (const SumPlan::Entry& entry : sums.entries) {
    const plan::Tensor& tensor = job[entry.tensor];
    tensors.push_back({tensor.shape.elements(), exec::total_size(tensor), size_of(tensor.dtype),
                       job.steps[entry.step].probe});
  }
  for (const exec::SlicedUpdate& update : updates) tensors[update.entry].divided = true;
  return tensors;
}

}  // namespace

SumPlan plan_sums(const plan::Job& job, std::span<const plan::TensorId> owners, int64_t ranks) {
  SumPlan sums;
  if (!job.sharding) return sums;
  const auto levels =
      static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(job.sharding->count / ranks)));
  for (const auto& [id, step] : exec::list_combined(job, owners)) {
    const plan::Tensor& tensor = job[id];
    const size_t stride =
        aligned(level_bytes(tensor.dtype, tensor.shape.rank() == 0, tensor.shape.elements()));
    sums.entries.push_back({id, step, sums.bytes, stride});
    sums.bytes += levels * stride;
  }
  return sums;
}

RankPlan plan_rank_sums(const plan::Job& job, const SumPlan& sums,
                        std::span<const exec::SlicedUpdate> updates,
                        const exec::Collectives& ranks) {
  RankPlan plan;
  plan.buckets = exec::make_buckets(describe(job, sums, updates), ranks.size());
  const auto take = [&](size_t bytes) { return std::exchange(plan.bytes, plan.bytes + bytes); };
  size_t most = 0;
  for (const exec::Bucket& bucket : plan.buckets) {
    plan.totals.push_back(take(aligned(bucket.total_bytes)));
    // Divided gradients are float32, and so are their totals.
    plan.wholes.push_back(bucket.divided ? plan.totals.back() : take(aligned(bucket.whole_bytes)));
    plan.strides.push_back(aligned(bucket.total_lengths[static_cast<size_t>(ranks.rank())]));
    most = std::max(most, plan.strides.back());
  }
  plan.received = take(most * static_cast<size_t>(ranks.size()));
  return plan;
}

/// Returns the transfers with all other ranks. sent(r) is the block for rank r and received(r) the
/// block from rank r; each is an address and a number of bytes.
template <typename Sent, typename Received>
RankSums::Transfers RankSums::with_others(size_t ranks, size_t rank, const Sent& sent,
                                          const Received& received) {
  Transfers transfers;
  const auto add = [](std::vector<Transfer>& to, std::pair<std::byte*, size_t> block, size_t peer) {
    if (block.second > 0) to.push_back({block.first, block.second, static_cast<int>(peer)});
  };
  for (size_t other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    add(transfers.sends, sent(other), other);
    add(transfers.receives, received(other), other);
  }
  return transfers;
}

/// Finds the addresses of one bucket.
class RankSums::BucketMaker {
 public:
  BucketMaker(const exec::Collectives& ranks, const plan::Job& job, const SumPlan& sums,
              const RankPlan& plan, std::byte* memory, size_t index)
      : job_(job),
        sums_(sums),
        bucket_(plan.buckets[index]),
        ranks_(static_cast<size_t>(ranks.size())),
        rank_(static_cast<size_t>(ranks.rank())),
        totals_(memory + plan.totals[index]),
        wholes_(memory + plan.wholes[index]),
        received_(memory + plan.received),
        stride_(plan.strides[index]) {}

  std::byte* total(size_t place) const { return totals_ + bucket_.total_offsets[place]; }

  Bucket make(std::span<const Addresses> addresses) {
    made_.divided = bucket_.divided;
    made_.own = {received_ + rank_ * stride_, totals_ + bucket_.total_starts[rank_],
                 bucket_.total_lengths[rank_]};
    exchange();
    for (const exec::Slice& slice : bucket_.slices[rank_]) add_slice(slice);
    if (!bucket_.small) gather();
    for (const size_t entry : bucket_.tensors)
      if (bucket_.divided)
        divide(entry, addresses[entry]);
      else
        copy_to_part({entry, 0, tensor_of(entry).shape.elements()}, addresses[entry]);
    return std::move(made_);
  }

 private:
  const plan::Tensor& tensor_of(size_t entry) const { return job_[sums_.entries[entry].tensor]; }

  /// The offset and the size of some elements of a tensor, in bytes.
  struct Bytes {
    size_t first, count;
  };
  Bytes bytes_of(const exec::Slice& slice) const {
    const size_t size = size_of(tensor_of(slice.tensor).dtype);
    return {static_cast<size_t>(slice.first) * size,
            static_cast<size_t>(slice.end - slice.first) * size};
  }
  std::byte* whole(const exec::Slice& slice) const {
    return wholes_ + bucket_.whole_offsets[bucket_.place_of(slice.tensor)] + bytes_of(slice).first;
  }

  void copy_to_part(const exec::Slice& slice, const Addresses& address) {
    const auto [first, count] = bytes_of(slice);
    if (count > 0) made_.to_parts.push_back({address.part + first, whole(slice), count});
  }

  /// Adds the copies for the slice of this rank and for the elements before and after it.
  void divide(size_t entry, const Addresses& address) {
    const std::vector<int64_t> bounds = exec::bounds_of(bucket_, entry);
    const exec::Slice own{entry, bounds[rank_], bounds[rank_ + 1]};
    copy_to_part(own, address);
    if (const auto [first, count] = bytes_of(own); count > 0)
      made_.from_variables.push_back({whole(own), address.variable + first, count});
    for (const exec::Slice& other :
         {exec::Slice{entry, 0, own.first}, exec::Slice{entry, own.end, bounds.back()}})
      if (const auto [first, count] = bytes_of(other); count > 0)
        made_.to_variables.push_back({address.variable + first, whole(other), count});
  }

  void exchange() {
    made_.totals = with_others(
        ranks_, rank_,
        [&](size_t r) {
          return std::pair(totals_ + bucket_.total_starts[r], bucket_.total_lengths[r]);
        },
        [&](size_t r) { return std::pair(received_ + r * stride_, bucket_.total_lengths[rank_]); });
  }

  void add_slice(const exec::Slice& slice) {
    const plan::Tensor& tensor = tensor_of(slice.tensor);
    const size_t first = static_cast<size_t>(slice.first) * exec::total_size(tensor);
    made_.slices.push_back({tensor.dtype, tensor.shape.rank() == 0, *tensor.combine,
                            slice.end - slice.first,
                            received_ + bucket_.total_offsets[bucket_.place_of(slice.tensor)] +
                                first - bucket_.total_starts[rank_],
                            stride_, whole(slice)});
  }

  void gather() {
    const auto of_rank = [&](size_t rank) {
      return std::pair(wholes_ + bucket_.whole_starts[rank], bucket_.whole_lengths[rank]);
    };
    made_.wholes = with_others(
        ranks_, rank_, [&](size_t) { return of_rank(rank_); }, of_rank);
  }

  const plan::Job& job_;
  const SumPlan& sums_;
  const exec::Bucket& bucket_;
  const size_t ranks_, rank_;
  std::byte *const totals_, *const wholes_, *const received_;
  const size_t stride_;
  Bucket made_;
};

RankSums::RankSums(Driver& driver, Communicator& communicator, const exec::Collectives& ranks,
                   const plan::Job& job, const SumPlan& sums, const RankPlan& plan,
                   std::byte* memory, std::span<const Addresses> addresses)
    : driver_(driver),
      communicator_(communicator),
      ranks_(static_cast<size_t>(ranks.size())),
      rank_(static_cast<size_t>(ranks.rank())),
      shards_(plan::shards_of(job)),
      stream_(driver, driver.create_stream()),
      complete_(driver, driver.create_event()),
      done_(driver, driver.create_event()),
      totals_(sums.entries.size()) {
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    BucketMaker maker(ranks, job, sums, plan, memory, i);
    const std::vector<size_t>& entries = plan.buckets[i].tensors;
    for (size_t place = 0; place < entries.size(); ++place)
      totals_[entries[place]] = maker.total(place);
    buckets_.push_back(maker.make(addresses));
    divides_ |= buckets_.back().divided;
  }
}

void RankSums::copy(std::span<const Copy> copies, Stream stream) {
  for (const Copy& one : copies)
    if (one.bytes > 0) driver_.copy(one.to, one.from, one.bytes, stream);
}

void RankSums::transfer(const Transfers& transfers) {
  communicator_.transfer(transfers.sends, transfers.receives, stream_.get());
}

void RankSums::enter(Stream stream) {
  driver_.record(complete_.get(), stream);
  driver_.wait(stream_.get(), complete_.get());
}

void RankSums::leave(Stream stream) {
  driver_.record(done_.get(), stream_.get());
  driver_.wait(stream, done_.get());
}

void RankSums::exchange(size_t index, Stream stream) {
  Bucket& bucket = buckets_[index];
  enter(stream);
  copy({&bucket.own, 1}, stream_.get());
  transfer(bucket.totals);
  join_ranks(bucket.slices, static_cast<int>(ranks_), shards_,
             {driver_, stream_.get(), nullptr, nullptr});
  if (!bucket.divided) transfer(bucket.wholes);
  bucket.exchanged = true;
}

/// The parts are copied only now, because steps of shards may read a part after its total was
/// taken.
void RankSums::finish(Stream stream) {
  leave(stream);
  for (Bucket& bucket : buckets_)
    if (std::exchange(bucket.exchanged, false)) copy(bucket.to_parts, stream);
}

size_t RankSums::add_gather(const RankGather& gather, std::byte* workspace) {
  const auto block = [&](size_t rank) {
    return std::pair(workspace + gather.offsets[rank], gather.bytes[rank]);
  };
  gathers_.push_back(with_others(
      ranks_, rank_, [&](size_t) { return block(rank_); }, block));
  return gathers_.size() - 1;
}

void RankSums::gather(size_t number, Stream stream) {
  enter(stream);
  transfer(gathers_[number]);
  leave(stream);
}

/// Each rank has updated a slice of each variable.
void RankSums::gather_variables(Stream stream) {
  enter(stream);
  for (const Bucket& bucket : buckets_) {
    if (!bucket.divided) continue;
    copy(bucket.from_variables, stream_.get());
    transfer(bucket.wholes);
    copy(bucket.to_variables, stream_.get());
  }
  leave(stream);
}

/// Variables keep their values, because the values of the ranks may still differ.
void RankSums::rehearse(Stream stream) {
  for (size_t i = 0; i < buckets_.size(); ++i) exchange(i, stream);
  finish(stream);
  for (size_t i = 0; i < gathers_.size(); ++i) gather(i, stream);
  enter(stream);
  for (const Bucket& bucket : buckets_)
    if (bucket.divided) transfer(bucket.wholes);
  leave(stream);
  driver_.record(done_.get(), stream);
  communicator_.wait(done_.get());
}

}  // namespace flow::cuda
