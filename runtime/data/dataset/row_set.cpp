// Finds rows in ranges and lists.
#include "runtime/data/dataset/row_set.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace flow::data {

RowRanges::RowRanges(std::span<const std::pair<int64_t, int64_t>> ranges, int64_t source_rows) {
  const auto add = [&](int64_t first, int64_t end) {
    parts_.push_back({first, size_});
    size_ += end - first;
  };
  if (ranges.empty()) add(0, source_rows);
  for (const auto& [first, end] : ranges)
    add(first, end == std::numeric_limits<int64_t>::max() ? source_rows : end);
}

const RowRanges::Part& RowRanges::part_of(int64_t i) const {
  return *std::prev(std::ranges::upper_bound(parts_, i, {}, &Part::begin));
}

int64_t RowRanges::operator[](int64_t i) const {
  const Part& part = part_of(i);
  return part.first + (i - part.begin);
}

int64_t RowRanges::run(int64_t i) const {
  const auto after = std::ranges::upper_bound(parts_, i, {}, &Part::begin);
  return (after == parts_.end() ? size_ : after->begin) - i;
}

RowSet::RowSet(std::vector<int64_t> rows)
    : count_(static_cast<int64_t>(rows.size())),
      list_(std::make_shared<const std::vector<int64_t>>(std::move(rows))) {}

int64_t RowSet::run(int64_t i, int64_t most) const {
  if (!list_) return std::min(count_ - i, most);
  int64_t n = 1;
  while (n < most && i + n < count_ && (*this)[i + n] == (*this)[i] + n) ++n;
  return n;
}

}  // namespace flow::data
