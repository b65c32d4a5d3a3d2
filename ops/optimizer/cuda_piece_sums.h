// Where sums over pieces of arrays lie, which are added in the order of pieces. Ranks that have a
// slice of an array each sum the pieces of their own, and all of them add the sums of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/loops/kernel.h"

namespace flow::cuda {

/// Sums of all arrays, in order; behind them, sums that ranks gather, those of a rank together.
/// Places are counted in sums.
class PieceSums {
 public:
  /// `piece`: elements; slices end where pieces do. `rank`: this one. `all_need_all`: else a rank
  /// needs the sums of those arrays only of which it has elements.
  PieceSums(std::span<const TensorDesc> arrays, int64_t piece, size_t rank, bool all_need_all);

  /// Of all arrays.
  int64_t count() const { return firsts_.back(); }
  /// Of an array: where its sums begin and end in the order of all.
  int64_t first(size_t array) const { return firsts_[array]; }
  int64_t end(size_t array) const { return firsts_[array + 1]; }
  /// Where this rank leaves the sums of what it has of an array.
  int64_t place(size_t array) const { return places_[array]; }

  // Of sums that take `sum_size` bytes, in the workspace:
  size_t bytes(size_t sum_size) const;
  RankGather gather(size_t sum_size) const;
  /// Puts what was gathered in the order of all.
  void put_in_order(std::byte* sums, size_t sum_size, const LaunchState& state) const;

 private:
  /// Adjacent sums that go elsewhere.
  struct Run {
    int64_t from, to, count;
  };
  void gather_pieces(std::span<const TensorDesc> arrays, int64_t piece, size_t rank,
                     const std::vector<bool>& gathered);

  std::vector<int64_t> firsts_, places_;  // by array
  std::vector<Run> runs_;
  std::vector<int64_t> starts_;  // by rank: of what it gathers; then the end. Empty: nothing
};

/// A kernel, or updates, of two launches: `sum` leaves sums of what this rank has at their places,
/// `use` finds those of all ranks in order.
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
