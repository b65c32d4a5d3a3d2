// Rows that come from the cache of a dataset instead of the files from which they were made.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/dataset/row_set.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/io/rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// The files of a dataset with a cache. They are opened only if a message needs the name of a row
/// or the error of a bad row.
class OriginalFiles {
 public:
  OriginalFiles(plan::Dataset dataset, fs::path root)
      : dataset_(std::move(dataset)), root_(std::move(root)) {}

  /// Returns the source of the column with this index, whose name `column` returns. Throws RunError
  /// as open_sources(). Any thread may call it.
  const SourceRows& source(size_t index) const;
  const plan::Column& column(size_t index) const { return dataset_.columns[index]; }
  const fs::path& root() const { return root_; }

 private:
  const plan::Dataset dataset_;
  const fs::path root_;
  mutable std::once_flag opened_;
  mutable std::vector<std::shared_ptr<SourceRows>> sources_;
};

/// The rows of a column in the files of its dataset. Row i is the i-th row that the column selects.
class OriginalRows {
 public:
  OriginalRows(std::shared_ptr<const OriginalFiles> files, size_t index)
      : files_(std::move(files)), index_(index) {}

  std::string row_text(int64_t row) const;
  RunError bad_row(int64_t row) const;

 private:
  int64_t source_row(int64_t row) const;

  std::shared_ptr<const OriginalFiles> files_;
  size_t index_;
};

/// What a cache keeps of each kind of column, next to the values.
struct CachedFacts {
  std::vector<int64_t> bad_rows;     // known without decoding, ascending
  std::vector<int64_t> undecodable;  // images that cannot be decoded, ascending
  std::vector<int64_t> file_starts;  // the first row of each file, ascending
};

/// Decoded images of one size. Rows of undecodable images are bad, as they are without a cache.
class CachedImages : public SourceRows {
 public:
  /// `rows` are (rows, channels, height, width) of uint8, or of int32 for images of 16 bits.
  CachedImages(io::Rows rows, CachedFacts facts, OriginalRows original);

  int64_t rows() const override { return rows_.shape[0]; }
  StoredElement element() const override;
  int64_t row_elements() const override { return 0; }
  std::string row_text(int64_t row) const override { return original_.row_text(row); }
  std::vector<int64_t> file_starts() const override { return facts_.file_starts; }
  std::vector<int64_t> bad_rows() const override { return facts_.bad_rows; }
  RunError bad_row(int64_t row) const override { return original_.bad_row(row); }
  bool is_decoded() const override { return true; }
  void recovering(const std::function<void()>& read) const override;
  std::span<const std::byte> read(int64_t row, const RowDraws& draws,
                                  Scratch& scratch) const override;

 private:
  const io::Rows rows_;
  const CachedFacts facts_;
  const OriginalRows original_;
};

}  // namespace flow::data
