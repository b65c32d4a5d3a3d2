// Places of the sums over pieces, and the kernel that puts gathered sums in order.
#include "ops/optimizer/cuda_piece_sums.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/host_device.h"
#include "runtime/cuda/loops/launch.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

constexpr int kMostRuns = 160;  // runs per launch: kernel parameters are limited to 4096 bytes

/// A copy of `count` doubles; `from` and `to` are counted in doubles.
struct Move {
  int64_t from, to, count;
};
struct Moves {
  Move of[kMostRuns];
};

/// Copies the doubles of each move; one block handles one move. Sources and destinations do not
/// overlap.
__global__ void order_sums(Moves moves, double* sums) {
  const Move& move = moves.of[blockIdx.x];
  for (int64_t i = threadIdx.x; i < move.count; i += blockDim.x)
    sums[move.to + i] = sums[move.from + i];
}

/// Returns the number of pieces of an array that a rank has. Slices begin where pieces do.
int64_t pieces_of(std::span<const int64_t> bounds, size_t rank, int64_t piece) {
  return ceil_div(bounds[rank + 1] - bounds[rank], piece);
}

/// Returns true if several ranks have elements, or if one rank has all of them and all ranks need
/// its sums.
bool is_gathered(std::span<const int64_t> bounds, bool all_need_all) {
  size_t owners = 0;
  for (size_t rank = 0; rank + 1 < bounds.size(); ++rank)
    if (bounds[rank] < bounds[rank + 1]) ++owners;
  return owners > 1 || (owners == 1 && all_need_all);
}

}  // namespace

PieceSums::PieceSums(std::span<const TensorDesc> arrays, int64_t piece, size_t rank,
                     bool all_need_all)
    : firsts_{0} {
  std::vector<bool> gathered;
  for (const TensorDesc& array : arrays) {
    places_.push_back(firsts_.back());
    firsts_.push_back(firsts_.back() + ceil_div(array.whole_elements(), piece));
    gathered.push_back(is_gathered(array.bounds, all_need_all));
  }
  if (std::ranges::find(gathered, true) != gathered.end())
    gather_pieces(arrays, piece, rank, gathered);
}

void PieceSums::gather_pieces(std::span<const TensorDesc> arrays, int64_t piece, size_t rank,
                              const std::vector<bool>& gathered) {
  const auto one = std::ranges::find(gathered, true) - gathered.begin();
  starts_.assign(arrays[static_cast<size_t>(one)].bounds.size(), 0);
  const size_t ranks = starts_.size() - 1;
  for (size_t i = 0; i < arrays.size(); ++i)
    for (size_t r = 0; gathered[i] && r < ranks; ++r)
      starts_[r + 1] += pieces_of(arrays[i].bounds, r, piece);
  starts_[0] = count();
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  std::vector<int64_t> ends(starts_.begin(), starts_.end() - 1);  // ends of the sums placed so far
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!gathered[i]) continue;
    places_[i] = ends[rank];
    for (size_t r = 0; r < ranks; ++r) {
      const int64_t sums = pieces_of(arrays[i].bounds, r, piece);
      if (sums > 0) runs_.push_back({ends[r], first(i) + arrays[i].bounds[r] / piece, sums});
      ends[r] += sums;
    }
  }
}

size_t PieceSums::bytes(size_t sum_size) const {
  return static_cast<size_t>(starts_.empty() ? count() : starts_.back()) * sum_size;
}

RankGather PieceSums::gather(size_t sum_size) const {
  RankGather gather;
  for (size_t rank = 0; rank + 1 < starts_.size(); ++rank) {
    gather.offsets.push_back(static_cast<size_t>(starts_[rank]) * sum_size);
    gather.bytes.push_back(static_cast<size_t>(starts_[rank + 1] - starts_[rank]) * sum_size);
  }
  return gather;
}

void PieceSums::put_in_order(std::byte* sums, size_t sum_size, const LaunchState& state) const {
  const auto width = static_cast<int64_t>(sum_size / sizeof(double));
  for (size_t first = 0; first < runs_.size(); first += kMostRuns) {
    const size_t end = std::min<size_t>(runs_.size(), first + kMostRuns);
    Moves moves{};
    for (size_t i = first; i < end; ++i)
      moves.of[i - first] = {runs_[i].from * width, runs_[i].to * width, runs_[i].count * width};
    launch(state.driver, state.stream, "order_sums",
           {{static_cast<unsigned>(end - first)}, {kThreads}}, order_sums, moves,
           reinterpret_cast<double*>(sums));
  }
}

}  // namespace flow::cuda
