// Some fingerprints of all ranks at a time, on rank 0.
#include "runtime/exec/ranks/rank_fingerprints.h"

#include <algorithm>

#include "runtime/exec/ranks/together.h"

namespace flow::exec {
namespace {

constexpr size_t kAtOnce = 8192;  // of all ranks together: rank 0 keeps memory for so many

}  // namespace

RankFingerprints::RankFingerprints(Collectives& ranks)
    : ranks_(ranks), at_once_(std::max<size_t>(1, kAtOnce / static_cast<size_t>(ranks.size()))) {
  const auto size = static_cast<size_t>(ranks.size());
  const bool leads = ranks.rank() == 0;
  blocks_.resize(leads ? size * at_once_ : 0);
  bytes_.resize(size);
  for (size_t rank = 0; rank < size; ++rank)
    offsets_.push_back(leads ? rank * at_once_ * sizeof(Fingerprint) : 0);
}

void RankFingerprints::merge(std::span<Fingerprint> own) {
  for (size_t first = 0; first < own.size(); first += at_once_)
    merge_some(own.subspan(first, std::min(at_once_, own.size() - first)));
}

void RankFingerprints::merge_some(std::span<Fingerprint> own) {
  std::ranges::fill(bytes_, own.size_bytes());
  const bool leads = ranks_.rank() == 0;
  if (leads) std::ranges::copy(own, blocks_.begin());
  gather_at(ranks_, 0,
            {std::as_writable_bytes(leads ? std::span(blocks_) : own).data(), offsets_, bytes_});
  if (!leads) return;
  for (size_t rank = 1; rank < bytes_.size(); ++rank)
    for (size_t i = 0; i < own.size(); ++i) own[i].merge(blocks_[rank * at_once_ + i]);
}

}  // namespace flow::exec
