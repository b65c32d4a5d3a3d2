// Makes the buckets of tensors that ranks exchange, and divides them into a slice for each rank.
#include "runtime/exec/ranks/buckets.h"

#include <set>
#include <utility>

#include "runtime/base/host_device.h"

namespace flow::exec {
namespace {

// Sizes in bytes. Every bucket except the last one has at least kBucketBytes, and the slice of each
// rank has at least kSliceBytes, so that all ranks have work. In buckets of at most kSmallBytes,
// latency costs more than bytes.
constexpr size_t kBucketBytes = size_t{1} << 20;
constexpr size_t kSliceBytes = size_t{1} << 16;
constexpr size_t kSmallBytes = size_t{1} << 14;
constexpr size_t kLine = 64;  // a cache line

class BucketMaker {
 public:
  BucketMaker(std::span<const CombinedTensor> tensors, int ranks)
      : tensors_(tensors),
        ranks_(static_cast<size_t>(ranks)),
        least_(std::max(kBucketBytes, kSliceBytes * ranks_)) {}

  std::vector<Bucket> make() {
    for (const bool divided : {false, true}) add(divided);
    std::ranges::sort(buckets_, {}, [](const Bucket& bucket) { return bucket.tensors.back(); });
    return std::move(buckets_);
  }

 private:
  void add(bool divided) {
    Bucket shared;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].divided != divided) continue;
      Bucket own;
      Bucket& bucket = tensors_[i].probe || total_bytes(i) >= least_ ? own : shared;
      append(bucket, i);
      if (&bucket == &own || bucket.total_bytes >= least_)
        close(std::exchange(bucket, {}), divided);
    }
    if (!shared.tensors.empty()) close(std::move(shared), divided);
  }

  size_t total_bytes(size_t tensor) const {
    return static_cast<size_t>(tensors_[tensor].elements) * tensors_[tensor].total_size;
  }

  void append(Bucket& bucket, size_t tensor) const {
    const auto elements = static_cast<size_t>(tensors_[tensor].elements);
    bucket.tensors.push_back(tensor);
    bucket.total_offsets.push_back(bucket.total_bytes);
    bucket.whole_offsets.push_back(bucket.whole_bytes);
    bucket.total_bytes += round_up(total_bytes(tensor), kLine);
    bucket.whole_bytes += round_up(elements * tensors_[tensor].size, kLine);
  }

  void close(Bucket bucket, bool divided) {
    bucket.small = bucket.total_bytes <= kSmallBytes;
    bucket.divided = divided && !bucket.small;
    bucket.slices.resize(ranks_);
    bucket.small ? share(bucket) : cut(bucket);
    buckets_.push_back(std::move(bucket));
  }

  void share(Bucket& bucket) const {
    for (std::vector<Slice>& slices : bucket.slices)
      for (const size_t tensor : bucket.tensors)
        slices.push_back({tensor, 0, tensors_[tensor].elements});
    bucket.total_starts.resize(ranks_);
    bucket.total_lengths.assign(ranks_, bucket.total_bytes);
  }

  /// Divides the tensors into pieces. A piece belongs to the rank in whose equal share of the
  /// totals it begins.
  void cut(Bucket& bucket) const {
    for (size_t i = 0; i < bucket.tensors.size(); ++i) {
      const CombinedTensor& tensor = tensors_[bucket.tensors[i]];
      for (int64_t first = 0; first < tensor.elements; first += kSlicePiece) {
        const size_t begin =
            bucket.total_offsets[i] + static_cast<size_t>(first) * tensor.total_size;
        const int64_t end = std::min(tensor.elements, first + kSlicePiece);
        add_slice(bucket.slices[begin * ranks_ / bucket.total_bytes],
                  {bucket.tensors[i], first, end});
      }
    }
    place(bucket, bucket.total_offsets, &CombinedTensor::total_size, bucket.total_starts,
          bucket.total_lengths);
    place(bucket, bucket.whole_offsets, &CombinedTensor::size, bucket.whole_starts,
          bucket.whole_lengths);
  }

  static void add_slice(std::vector<Slice>& slices, const Slice& slice) {
    if (!slices.empty() && slices.back().tensor == slice.tensor)
      slices.back().end = slice.end;
    else
      slices.push_back(slice);
  }

  /// Places the slices of each rank one after another.
  void place(const Bucket& bucket, std::span<const size_t> offsets, size_t CombinedTensor::*size,
             std::vector<size_t>& starts, std::vector<size_t>& lengths) const {
    for (const std::vector<Slice>& slices : bucket.slices) {
      const auto position = [&](const Slice& slice, int64_t element) {
        return offsets[bucket.place_of(slice.tensor)] +
               static_cast<size_t>(element) * tensors_[slice.tensor].*size;
      };
      const size_t start = slices.empty() ? 0 : position(slices.front(), slices.front().first);
      starts.push_back(start);
      lengths.push_back(slices.empty() ? 0 : position(slices.back(), slices.back().end) - start);
    }
  }

  std::span<const CombinedTensor> tensors_;
  const size_t ranks_, least_;
  std::vector<Bucket> buckets_;
};

}  // namespace

std::vector<Combined> list_combined(const plan::Job& job, std::span<const plan::TensorId> owners) {
  std::vector<Combined> combined;
  if (!job.sharding) return combined;
  std::set<plan::TensorId> seen;
  for (size_t step = 0; step < job.sharding->steps.index(); ++step)
    for (const plan::TensorId id : job.steps[step].outputs)
      if (id.valid() && job[id].combine && *job[id].combine != plan::Combine::kNone &&
          seen.insert(owners[id.index()]).second)
        combined.push_back({id, step});
  return combined;
}

size_t total_size(const plan::Tensor& tensor) {
  if (!is_float(tensor.dtype)) return size_of(tensor.dtype);
  return tensor.shape.rank() == 0 ? sizeof(double) : std::max(sizeof(float), size_of(tensor.dtype));
}

std::vector<Bucket> make_buckets(std::span<const CombinedTensor> tensors, int ranks) {
  return BucketMaker(tensors, ranks).make();
}

std::vector<int64_t> bounds_of(const Bucket& bucket, size_t tensor) {
  if (!bucket.divided) return {};
  std::vector<int64_t> bounds = {0};
  for (const std::vector<Slice>& slices : bucket.slices) {
    const auto own = std::ranges::find(slices, tensor, &Slice::tensor);
    bounds.push_back(own == slices.end() ? bounds.back() : own->end);
  }
  return bounds;
}

size_t bytes_sent(std::span<const Bucket> buckets, int ranks) {
  const auto others = static_cast<size_t>(ranks - 1), all = static_cast<size_t>(ranks);
  size_t bytes = 0;
  for (const Bucket& bucket : buckets)
    bytes += bucket.small ? bucket.total_bytes * others
                          : (bucket.total_bytes + bucket.whole_bytes) * others / all;
  return bytes;
}

}  // namespace flow::exec
