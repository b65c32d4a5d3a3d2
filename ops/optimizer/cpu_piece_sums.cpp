// Places of the sums over pieces. The sums of each rank are stored next to each other.
#include "ops/optimizer/cpu_piece_sums.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/exec/core/collectives.h"

namespace flow::cpu {
namespace {

/// Returns the rank whose slice contains an element.
size_t owner_of(std::span<const int64_t> bounds, int64_t element) {
  return static_cast<size_t>(std::ranges::upper_bound(bounds, element) - bounds.begin()) - 1;
}

/// Calls f(owner, first) for each piece. The owner is a rank, or `everyone` if the array is not
/// split among ranks.
template <typename F>
void for_each_piece(const TensorDesc& desc, size_t everyone, F f) {
  for (int64_t first = 0; first < desc.whole_elements(); first += kPiece)
    f(desc.bounds.empty() ? everyone : owner_of(desc.bounds, first), first);
}

}  // namespace

PieceOrder::PieceOrder(const Request& request, size_t first, size_t end, size_t sum_size)
    : sum_size_(sum_size) {
  const size_t ranks = request.ranks ? static_cast<size_t>(request.ranks->size()) : 0;
  std::vector<size_t> counts(ranks + 1);
  for (size_t i = first; i < end; ++i)
    for_each_piece(request.inputs[i], ranks, [&](size_t owner, int64_t) { ++counts[owner]; });
  std::vector<size_t> places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), size_t{0});
  for (size_t rank = 0; rank < ranks; ++rank) {
    offsets_.push_back(places[rank] * sum_size);
    bytes_.push_back(counts[rank] * sum_size);
  }
  for (size_t i = first; i < end; ++i) add(request, i, places);
  const auto owners =
      static_cast<size_t>(std::ranges::count_if(bytes_, [](size_t n) { return n > 0; }));
  // A rank that has no elements of a result needs no sums for it.
  const bool all_need_it = request.outputs[0].bounds.empty();
  if (owners > 1 || (owners == 1 && all_need_it))
    ranks_ = request.ranks;
  else if (pieces_.empty())
    order_.clear();
}

void PieceOrder::add(const Request& request, size_t operand, std::vector<size_t>& places) {
  const TensorDesc& desc = request.inputs[operand];
  const size_t everyone = places.size() - 1;
  const size_t here = request.ranks ? static_cast<size_t>(request.ranks->rank()) : everyone;
  const int64_t start = desc.bounds.empty() ? 0 : desc.bounds[here];
  for_each_piece(desc, everyone, [&](size_t owner, int64_t first) {
    order_.push_back(places[owner]++);
    if (owner == here || owner == everyone)
      pieces_.push_back({operand, first - start,
                         std::min(first + kPiece, desc.whole_elements()) - start, order_.back()});
  });
}

size_t PieceOrder::gathered_bytes() const {
  return ranks_ ? std::reduce(bytes_.begin(), bytes_.end()) : 0;
}

void PieceOrder::gather(std::byte* sums) const {
  if (ranks_) exec::wait(*ranks_, ranks_->gather({sums, offsets_, bytes_}));
}

}  // namespace flow::cpu
