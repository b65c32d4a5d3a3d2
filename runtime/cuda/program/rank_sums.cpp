// Buckets on their way from GPU to GPU: exchanged, added up, gathered.
#include "runtime/cuda/program/rank_sums.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda/program/program_memory.h"
#include "runtime/plan/model/shards.h"

namespace flow::cuda {
namespace {

bool is_scalar(const plan::Tensor& tensor) { return tensor.shape.rank() == 0; }

/// Of an element while it is added up.
size_t total_size(const plan::Tensor& tensor) {
  return level_bytes(tensor.dtype, is_scalar(tensor), 1);
}

std::vector<exec::CombinedTensor> describe(const plan::Job& job, const SumPlan& sums) {
  std::vector<exec::CombinedTensor> tensors;
  for (const SumPlan::Entry& entry : sums.entries) {
    const plan::Tensor& tensor = job[entry.tensor];
    tensors.push_back({tensor.shape.elements(), total_size(tensor), size_of(tensor.dtype),
                       job.steps[entry.step].probe});
  }
  return tensors;
}

/// Bytes of the totals of each rank that `rank` adds up.
size_t length_of(const exec::Bucket& bucket, size_t rank) {
  return bucket.small ? bucket.total_bytes : bucket.total_lengths[rank];
}

size_t start_of(const exec::Bucket& bucket, size_t rank) {
  return bucket.small ? 0 : bucket.total_starts[rank];
}

}  // namespace

RankPlan plan_rank_sums(const plan::Job& job, const SumPlan& sums, const exec::Collectives& ranks) {
  RankPlan plan;
  plan.buckets = exec::make_buckets(describe(job, sums), ranks.size());
  const auto take = [&](size_t bytes) { return std::exchange(plan.bytes, plan.bytes + bytes); };
  size_t most = 0;
  for (const exec::Bucket& bucket : plan.buckets) {
    plan.totals.push_back(take(aligned(bucket.total_bytes)));
    plan.wholes.push_back(take(aligned(bucket.whole_bytes)));
    plan.strides.push_back(aligned(length_of(bucket, static_cast<size_t>(ranks.rank()))));
    most = std::max(most, plan.strides.back());
  }
  plan.received = take(most * static_cast<size_t>(ranks.size()));
  return plan;
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

  Bucket make(const std::vector<std::byte*>& parts) {
    made_.own = {received_ + rank_ * stride_, totals_ + start_of(bucket_, rank_),
                 length_of(bucket_, rank_)};
    exchange();
    add_slices();
    if (!bucket_.small) gather();
    for (size_t place = 0; place < bucket_.tensors.size(); ++place) {
      const plan::Tensor& tensor = tensor_of(bucket_.tensors[place]);
      made_.wholes.push_back({parts[bucket_.tensors[place]], wholes_ + bucket_.whole_offsets[place],
                              exec::bytes_of(tensor)});
    }
    return std::move(made_);
  }

 private:
  const plan::Tensor& tensor_of(size_t entry) const { return job_[sums_.entries[entry].tensor]; }

  static void add(std::vector<Transfer>& transfers, std::byte* memory, size_t bytes, size_t peer) {
    if (bytes > 0) transfers.push_back({memory, bytes, static_cast<int>(peer)});
  }

  void exchange() {
    for (size_t other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      add(made_.sends, totals_ + start_of(bucket_, other), length_of(bucket_, other), other);
      add(made_.receives, received_ + other * stride_, length_of(bucket_, rank_), other);
    }
  }

  void add_slices() {
    if (!bucket_.small)
      for (const exec::Slice& slice : bucket_.slices[rank_]) add_slice(slice);
    else
      for (const size_t entry : bucket_.tensors)
        add_slice({entry, 0, tensor_of(entry).shape.elements()});
  }

  void add_slice(const exec::Slice& slice) {
    const plan::Tensor& tensor = tensor_of(slice.tensor);
    const auto place = static_cast<size_t>(std::ranges::find(bucket_.tensors, slice.tensor) -
                                           bucket_.tensors.begin());
    const auto first = static_cast<size_t>(slice.first);
    made_.slices.push_back(
        {tensor.dtype, is_scalar(tensor), *tensor.combine, slice.end - slice.first,
         received_ + bucket_.total_offsets[place] + first * total_size(tensor) -
             start_of(bucket_, rank_),
         stride_, wholes_ + bucket_.whole_offsets[place] + first * size_of(tensor.dtype)});
  }

  void gather() {
    const auto whole = [&](size_t rank) { return wholes_ + bucket_.whole_starts[rank]; };
    for (size_t other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      add(made_.sends_of_wholes, whole(rank_), bucket_.whole_lengths[rank_], other);
      add(made_.receives_of_wholes, whole(other), bucket_.whole_lengths[other], other);
    }
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
                   std::byte* memory, const std::vector<std::byte*>& parts)
    : driver_(driver),
      communicator_(communicator),
      ranks_(ranks.size()),
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
    buckets_.push_back(maker.make(parts));
  }
}

void RankSums::copy(const Copy& copy, Stream stream) {
  if (copy.bytes > 0) driver_.copy(copy.to, copy.from, copy.bytes, stream);
}

void RankSums::exchange(size_t index, Stream stream) {
  Bucket& bucket = buckets_[index];
  driver_.record(complete_.get(), stream);
  driver_.wait(stream_.get(), complete_.get());
  copy(bucket.own, stream_.get());
  communicator_.transfer(bucket.sends, bucket.receives, stream_.get());
  join_ranks(bucket.slices, ranks_, shards_, {driver_, stream_.get(), nullptr, nullptr});
  communicator_.transfer(bucket.sends_of_wholes, bucket.receives_of_wholes, stream_.get());
  bucket.exchanged = true;
}

/// Not before: steps of shards may read a part after its total was taken.
void RankSums::finish(Stream stream) {
  driver_.record(done_.get(), stream_.get());
  driver_.wait(stream, done_.get());
  for (Bucket& bucket : buckets_)
    if (std::exchange(bucket.exchanged, false))
      for (const Copy& whole : bucket.wholes) copy(whole, stream);
}

void RankSums::rehearse(Stream stream) {
  for (size_t i = 0; i < buckets_.size(); ++i) exchange(i, stream);
  finish(stream);
  driver_.record(done_.get(), stream);
  communicator_.wait(done_.get());
}

}  // namespace flow::cuda
