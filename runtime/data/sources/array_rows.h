// Rows that files or memory hold as arrays, one file after the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/sources/source_rows.h"
#include "runtime/io/rows.h"

namespace flow::data {

/// Rows of arrays with the same element type. Elements are read in place.
class ArrayRows : public SourceRows {
 public:
  /// `names` are the names of the files in messages, one for each of `files`. Throws RunError if
  /// the files have different dtypes or rows.
  ArrayRows(std::vector<io::Rows> files, std::vector<std::string> names);

  int64_t rows() const override { return starts_.back(); }
  StoredElement element() const override;
  int64_t row_elements() const override { return row_elements_; }
  std::string row_text(int64_t row) const override;
  std::vector<int64_t> file_starts() const override;
  void recovering(const std::function<void()>& read) const override;
  std::span<const std::byte> in_place(int64_t row, int64_t count) const override;
  std::span<const std::byte> read(int64_t row, const RowDraws& draws,
                                  Scratch& scratch) const override;

 private:
  size_t file_of(int64_t row) const;
  void recover_from(size_t file, const std::function<void()>& read) const;

  std::vector<io::Rows> files_;
  std::vector<std::string> names_;
  int64_t row_elements_;
  size_t row_bytes_;
  std::vector<int64_t> starts_;  // the first row of each file, and the number of rows
};

}  // namespace flow::data
