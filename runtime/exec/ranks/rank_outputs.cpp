// Gathers the blocks of ranks, and copies elements of shards to their positions in the whole.
#include "runtime/exec/ranks/rank_outputs.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/plan/json/json.h"

namespace flow::exec {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Fault, where, operand, row, value, limit)

namespace {

constexpr size_t kAtOnce = 8192;  // fingerprints of all ranks together, for which rank 0 has memory

}  // namespace

void RankOutputs::add(size_t index, size_t offset, size_t bytes, std::optional<Spread> spread) {
  Output output{index, {}, {}, std::move(spread)};
  const auto ranks = static_cast<size_t>(ranks_.size());
  for (size_t rank = 0; rank < ranks; ++rank) {
    output.offsets.push_back(offset + rank * (bytes / ranks));
    output.bytes.push_back(bytes / ranks);
  }
  outputs_.push_back(std::move(output));
}

void RankOutputs::gather(std::byte* slot, std::span<const uint8_t> wanted) const {
  for (const Output& output : outputs_) {
    if (!wanted[output.index]) continue;
    gather_at(ranks_, 0, {slot, output.offsets, output.bytes});
    if (output.spread && ranks_.rank() == 0) spread(slot, output);
  }
}

void RankOutputs::spread(std::byte* slot, const Output& output) const {
  const auto& [offset, place, elements, element_size] = *output.spread;
  const auto at = [slot, size = element_size](size_t first, int64_t element) {
    return slot + first + static_cast<size_t>(element) * size;
  };
  for (int64_t shard = 0; shard < shards_; ++shard)
    for (int64_t i = 0; i < elements; i += place.run)
      std::memcpy(at(offset, place.at(i, shard)), at(output.offsets[0], shard * elements + i),
                  static_cast<size_t>(place.run) * element_size);
}

void agree_on_fault(Collectives& ranks, std::optional<Fault>& fault) {
  if (agree(ranks, fault ? 1 : 0) == 0) return;
  for (const std::string& text : gather_texts(ranks, fault ? Json(*fault).dump() : ""))
    if (!text.empty()) {
      fault = Json::parse(text).get<Fault>();
      return;
    }
}

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

SlicedSlots::SlicedSlots(const Division& division, Collectives& ranks) : ranks_(ranks) {
  const auto bytes = [](int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); };
  for (const SlicedUpdate& sliced : division.updates()) {
    Slot slot{bytes(sliced.first), bytes(sliced.elements()), {}, {}};
    for (size_t rank = 0; rank + 1 < sliced.bounds.size(); ++rank) {
      const int64_t first = sliced.bounds[rank], end = sliced.bounds[rank + 1];
      slot.offsets.push_back(ranks.rank() == 0 ? bytes(first) : 0);
      slot.bytes.push_back(bytes(end - first));
    }
    for (const plan::TensorId id : sliced.update.slots) slots_.emplace(id, slot);
  }
}

void SlicedSlots::gather(plan::TensorId slot, std::byte* memory) const {
  const Slot& found = slots_.at(slot);
  gather_at(ranks_, 0, {memory, found.offsets, found.bytes});
}

}  // namespace flow::exec
