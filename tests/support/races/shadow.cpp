// Cells in pages.
#include "tests/support/races/shadow.h"

#include "runtime/base/host_device.h"

namespace flow::test {

Shadow::Shadow(const std::byte* first, size_t bytes)
    : first_(first), bytes_(bytes), pages_(ceil_div(bytes, kWord * kPage)) {}

void Shadow::open(size_t page, uint64_t generation) {
  if (generation_ != generation) {
    opened_.clear();
    split_.clear();
    generation_ = generation;
  }
  if (!pages_[page]) pages_[page] = std::make_unique<Page>();
  pages_[page]->generation = generation;
  opened_.push_back(page);
}

void Shadow::split(Cell& cell) {
  std::array<Cell, kWord> bytes;
  bytes.fill(cell);
  cell.split = static_cast<int32_t>(split_.size());
  split_.push_back(bytes);
}

std::vector<UsedRange> Shadow::used(uint64_t generation) {
  std::vector<UsedRange> ranges;
  const auto add = [&](size_t offset, size_t bytes, const Cell& cell) {
    const std::byte* const first = first_ + offset;
    const std::byte* const end = first_ + std::min(offset + bytes, bytes_);
    if (!ranges.empty() && ranges.back().end == first && ranges.back().read == cell.was_read &&
        ranges.back().written == cell.was_written)
      ranges.back().end = end;
    else if (cell.was_read || cell.was_written)
      ranges.push_back({first, end, cell.was_read, cell.was_written});
  };
  if (generation_ != generation) return ranges;
  std::ranges::sort(opened_);
  for (const size_t page : opened_) {
    for (size_t i = 0; i < kPage; ++i) {
      const Cell& cell = pages_[page]->cells[i];
      const size_t offset = (page * kPage + i) * kWord;
      if (cell.generation != generation) continue;
      if (cell.split < 0) {
        add(offset, kWord, cell);
        continue;
      }
      for (size_t byte = 0; byte < kWord; ++byte)
        add(offset + byte, 1, split_[static_cast<size_t>(cell.split)][byte]);
    }
  }
  return ranges;
}

void ShadowMemory::add(const std::byte* first, size_t bytes) {
  shadows_.emplace(first, Shadow(first, bytes));
}

void ShadowMemory::remove(const std::byte* first) {
  last_ = nullptr;
  shadows_.erase(first);
}

Shadow* ShadowMemory::search(const std::byte* at) {
  auto after = shadows_.upper_bound(at);
  if (after == shadows_.begin() || !(--after)->second.holds(at)) return nullptr;
  return last_ = &after->second;
}

std::vector<UsedRange> ShadowMemory::used(uint64_t generation) {
  std::vector<UsedRange> all;
  for (auto& [first, shadow] : shadows_) {
    const std::vector<UsedRange> ranges = shadow.used(generation);
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  return all;
}

}  // namespace flow::test
