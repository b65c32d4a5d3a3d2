// Which tensors of a job shards and ranks combine, and how the sums over ranks are cut: buckets
// that are exchanged while later steps compute, and the slice of each that a rank adds up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::exec {

struct Combined {
  plan::TensorId tensor;
  size_t step;  // that makes it
};

/// In the order of steps. Of several in one memory, the first stands for all. `owners`: for each
/// tensor, whose memory it lies in.
std::vector<Combined> list_combined(const plan::Job& job, std::span<const plan::TensorId> owners);

/// Bytes of an element while parts are added up: floats in float32, those of float64 and scalars in
/// float64, others as they are.
size_t total_size(const plan::Tensor& tensor);

/// A tensor that is combined over ranks.
struct CombinedTensor {
  int64_t elements = 0;
  size_t total_size = 0;  // bytes of an element while it is added up
  size_t size = 0;        // ... and of the result
  bool probe = false;     // made in some calls only
  bool divided = false;   // a gradient of which each rank needs its slice alone
};

/// Elements [first, end) of tensor `tensor`.
struct Slice {
  size_t tensor = 0;
  int64_t first = 0, end = 0;
};

/// Tensors that are exchanged at once. Each rank sends every other one the totals of its slices,
/// adds up its own, and sends the results to all. Their bytes in all: 2 (N - 1) times the bucket's.
/// Of divided gradients it sends the new values of variables instead, which lie in the same way.
/// Of a small bucket each rank sends all, and adds up all: a round less.
struct Bucket {
  std::vector<size_t> tensors;
  std::vector<size_t> total_offsets, whole_offsets;  // of each: in the bucket's totals and results
  size_t total_bytes = 0, whole_bytes = 0;
  bool small = false;
  bool divided = false;                    // gradients; never of a small one
  std::vector<std::vector<Slice>> slices;  // by rank; of a small one: every rank has all
  /// By rank: where its slices lie among the totals, and their results, but not of a small one.
  std::vector<size_t> total_starts, total_lengths, whole_starts, whole_lengths;

  /// The position of a tensor among those of the bucket.
  size_t place_of(size_t tensor) const {
    return static_cast<size_t>(std::ranges::find(tensors, tensor) - tensors.begin());
  }
};

/// Slices end at multiples of this many elements: the pieces in which norms are summed.
constexpr int64_t kSlicePiece = 16384;

/// Buckets in the order in which they are complete, where tensors are given in theirs. A probe has
/// a bucket of its own, and so has a tensor that is as large as a bucket. Divided gradients share
/// no bucket with other tensors.
std::vector<Bucket> make_buckets(std::span<const CombinedTensor> tensors, int ranks);

/// Where the slice of each rank begins in a tensor of a divided bucket, in elements, and where the
/// last one ends. Empty: the bucket is not divided.
std::vector<int64_t> bounds_of(const Bucket& bucket, size_t tensor);

/// What each rank sends for these in a call, on average.
size_t bytes_sent(std::span<const Bucket> buckets, int ranks);

}  // namespace flow::exec
