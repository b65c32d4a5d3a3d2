// Which rows of a source form a dataset or a part of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace flow::data {

/// The rows of a column that `rows:` selects: ranges of source rows, one after the other.
class RowRanges {
 public:
  /// `ranges` are [first, end); an end of INT64_MAX is the last row; an empty list selects all
  /// rows. REQUIRES: each range is inside the source and has rows.
  RowRanges(std::span<const std::pair<int64_t, int64_t>> ranges, int64_t source_rows);

  int64_t size() const { return size_; }
  /// Returns the source row of row i. REQUIRES: 0 <= i < size().
  int64_t operator[](int64_t i) const;
  /// Returns the number of rows from i that are next to each other in the source.
  int64_t run(int64_t i) const;

 private:
  struct Part {
    int64_t first, begin;  // source row `first` is row `begin`
  };
  const Part& part_of(int64_t i) const;

  std::vector<Part> parts_;
  int64_t size_ = 0;
};

/// Rows of a dataset: a range, or a list. Copies share the list.
class RowSet {
 public:
  RowSet() = default;
  RowSet(int64_t first, int64_t count) : first_(first), count_(count) {}
  explicit RowSet(std::vector<int64_t> rows);

  int64_t size() const { return count_; }
  bool is_range() const { return !list_; }
  int64_t operator[](int64_t i) const {
    return list_ ? (*list_)[static_cast<size_t>(i)] : first_ + i;
  }
  /// Returns the number of rows from i that are consecutive: at most `most`.
  int64_t run(int64_t i, int64_t most) const;

 private:
  int64_t first_ = 0, count_ = 0;
  std::shared_ptr<const std::vector<int64_t>> list_;
};

}  // namespace flow::data
