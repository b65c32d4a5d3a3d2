// The tensors of a job that shards and ranks combine, and the division of the sums over ranks:
// buckets, which are exchanged while later steps compute, and the slice of each bucket that a rank
// adds up.
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
  size_t step;  // the step that makes it
};

/// Lists the combined tensors in the order of steps. If several tensors have the same memory, the
/// first represents all of them. `owners` contains for each tensor the tensor that owns its memory.
std::vector<Combined> list_combined(const plan::Job& job, std::span<const plan::TensorId> owners);

/// Returns the bytes of an element while parts are added up: floats are added in float32, but
/// float64 tensors and scalars in float64; other dtypes are unchanged.
size_t total_size(const plan::Tensor& tensor);

/// A tensor that is combined over ranks.
struct CombinedTensor {
  int64_t elements = 0;
  size_t total_size = 0;  // bytes of an element while parts are added up
  size_t size = 0;        // bytes of an element of the result
  bool probe = false;     // made only in some calls
  bool divided = false;   // a gradient of which each rank needs only its slice
};

/// Elements [first, end) of tensor `tensor`.
struct Slice {
  size_t tensor = 0;
  int64_t first = 0, end = 0;
};

/// Tensors that are exchanged together. Each rank sends to every other rank the totals of that
/// rank's slices, adds up its own slices, and sends the results to all ranks. In total, 2 (N - 1)
/// times the bytes of the bucket are sent. For divided gradients, the ranks send the new values of
/// variables instead of the results, with the same layout. For a small bucket, each rank sends all
/// totals and adds up everything, which saves a round.
struct Bucket {
  std::vector<size_t> tensors;
  /// The offsets of each tensor in the bucket's totals and in its results.
  std::vector<size_t> total_offsets, whole_offsets;
  size_t total_bytes = 0, whole_bytes = 0;
  bool small = false;
  bool divided = false;                    // contains divided gradients; a small bucket never does
  std::vector<std::vector<Slice>> slices;  // indexed by rank; if small, each rank has all slices
  /// Indexed by rank: the positions of its slices among the totals and among the results. Small
  /// buckets have no positions among the results.
  std::vector<size_t> total_starts, total_lengths, whole_starts, whole_lengths;

  /// The position of a tensor among those of the bucket.
  size_t place_of(size_t tensor) const {
    return static_cast<size_t>(std::ranges::find(tensors, tensor) - tensors.begin());
  }
};

/// Slices end at multiples of this many elements, which is the size of the pieces in which norms
/// are summed.
constexpr int64_t kSlicePiece = 16384;

/// Returns the buckets in the order in which they are complete, if tensors are given in the order
/// in which they are made. A probe is in a bucket alone, as is a tensor that is as large as a
/// bucket. Divided gradients are never in the same bucket as other tensors.
std::vector<Bucket> make_buckets(std::span<const CombinedTensor> tensors, int ranks);

/// Returns the offsets, in elements, at which the slice of each rank begins in a tensor of a
/// divided bucket, followed by the end of the last slice. Empty if the bucket is not divided.
std::vector<int64_t> bounds_of(const Bucket& bucket, size_t tensor);

/// Returns the average number of bytes that each rank sends for these buckets in a call.
size_t bytes_sent(std::span<const Bucket> buckets, int ranks);

}  // namespace flow::exec
