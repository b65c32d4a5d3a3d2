// Places of sums over pieces of arrays, which are added in the order of the pieces. Each rank sums
// the pieces of its slice of an array, and then every rank adds the sums of all pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// The places of sums. First come the sums of all arrays, in order; after them come the sums that
/// ranks gather, with those of each rank next to each other. Places are counted in sums.
class PieceSums {
 public:
  /// `piece` is the number of elements of a piece; slices end where pieces do. `rank` is this rank.
  /// If `all_need_all` is false, a rank needs only the sums of arrays of which it has elements.
  PieceSums(std::span<const TensorDesc> arrays, int64_t piece, size_t rank, bool all_need_all);

  /// Returns the number of sums of all arrays.
  int64_t count() const { return firsts_.back(); }
  /// Return where the sums of an array begin and end in the order of all sums.
  int64_t first(size_t array) const { return firsts_[array]; }
  int64_t end(size_t array) const { return firsts_[array + 1]; }
  /// Returns where this rank stores the sums of its part of an array.
  int64_t place(size_t array) const { return places_[array]; }

  // The following functions are for sums that take `sum_size` bytes each in the workspace.
  size_t bytes(size_t sum_size) const;
  RankGather gather(size_t sum_size) const;
  /// Puts the gathered sums in the order of all sums.
  void put_in_order(std::byte* sums, size_t sum_size, const LaunchState& state) const;

 private:
  /// Adjacent sums that are copied to another place.
  struct Run {
    int64_t from, to, count;
  };
  void gather_pieces(std::span<const TensorDesc> arrays, int64_t piece, size_t rank,
                     const std::vector<bool>& gathered);

  std::vector<int64_t> firsts_, places_;  // indexed by array
  std::vector<Run> runs_;
  // Where the gathered sums of each rank begin, then their end; empty if nothing is gathered.
  std::vector<int64_t> starts_;
};

/// Returns a kernel, or updates, made of two launches: `sum` stores this rank's sums at their
/// places, and `use` reads the sums of all ranks in order.
template <typename Made, typename Sum, typename Use>
Made around_gather(const PieceSums& sums, size_t sum_size, const Sum& sum, const Use& use) {
  RankGather gather = sums.gather(sum_size);
  if (!gather.bytes.empty()) return {sum, sums.bytes(sum_size), std::move(gather), use};
  return {[=](const auto& buffers, const LaunchState& state) {
            sum(buffers, state);
            use(buffers, state);
          },
          sums.bytes(sum_size)};
}

}  // namespace flow::cuda
