// Gathers blocks of ranks, and puts elements of shards where they are in the whole.
#include "runtime/exec/ranks/rank_outputs.h"

#include <cstring>
#include <string>
#include <utility>

#include "runtime/exec/ranks/fault_text.h"
#include "runtime/exec/ranks/together.h"

namespace flow::exec {

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
  for (const std::string& text : gather_texts(ranks, fault ? to_text(*fault) : ""))
    if (!text.empty()) {
      fault = fault_of(text);
      return;
    }
}

}  // namespace flow::exec
