// Columns of datasets: rows in the order of the dataset or part, converted to the dtype of an
// input.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/data/dataset/decode_pool.h"
#include "runtime/data/dataset/row_set.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/io/convert.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Rows of single bytes, unchanged from their file, and the values that the bytes mean.
struct ByteRows {
  std::vector<std::span<const std::byte>> parts;  // each [rows, elements of a row]
  size_t channels = 1;                            // extent of the leading axis of a row, or 1
  std::span<const std::byte> table;               // [channels, 256] of the requested dtype
};

/// The number of values of a column that are NaN or infinite.
struct Nonfinite {
  int64_t count = 0;
  int64_t row = 0;  // the first row of the source that has one
};

/// Rows that a batch reads, and their place in the run, on which augmentation depends.
struct BatchRows {
  std::span<const int64_t> rows;
  uint32_t epoch = 0;
  std::span<const uint32_t> attempts = {};  // empty: all 0
};

/// How the columns of a dataset are read.
struct ReadOptions {
  uint64_t seed = 0;           // of augmentation
  std::string draws = {};      // a prefix for the names of draws
  bool training = false;       // random augmentation is applied
  DecodePool* pool = nullptr;  // decodes; null: the calling thread
};

/// Returns the number of windows that end within `rows` rows.
int64_t windows_in(const plan::Window& window, int64_t rows);

/// The rows of a column of a dataset or part.
class Column {
 public:
  /// `source` has the rows that `ranges` counts, of which `rows` belong to the dataset or part
  /// `dataset`. `mean` and `std` are the values in use, from the job file or learned.
  Column(const plan::Column& column, const std::string& dataset, std::shared_ptr<SourceRows> source,
         RowRanges ranges, RowSet rows, std::vector<double> mean, std::vector<double> std,
         ReadOptions options);
  /// Opens a column alone, with all rows that it selects. REQUIRES: it learns nothing. Throws
  /// RunError as open_source.
  static std::unique_ptr<Column> open(const plan::Column& column, const fs::path& root);

  int64_t rows() const;
  const Shape& row_shape() const { return row_shape_; }
  StoredElement element() const { return source_->element(); }
  /// The place of the column in the job file.
  const std::string& where() const { return where_; }
  /// Returns the name under which users find a row in their file: "row 12 of data/labels.npy".
  std::string row_text(int64_t row) const;
  /// Writes row `batch.rows[i]` to the i-th row of `out`, converted: (x * scale - mean) / std in
  /// float64, rounded once to `dtype`. Throws RunError if `dtype` is an integer and a result is not
  /// whole or out of range, or if a row cannot be decoded. Allocates nothing once its memory has
  /// the size of the largest row. Only one thread may call it at a time.
  void read(const BatchRows& batch, DType dtype, std::span<std::byte> out);
  void read(std::span<const int64_t> rows, DType dtype, std::span<std::byte> out) {
    read(BatchRows{rows}, dtype, out);
  }
  /// Returns the rows for callers that look up bytes themselves; the table gives results that are
  /// bit-identical to those of `read`. Returns nothing if rows are not bytes of a file, or if a
  /// byte has no value in `dtype`. The result is valid until rows are read as another dtype.
  std::optional<ByteRows> byte_rows(DType dtype);
  /// Counts the values that are NaN or infinite. Reads all rows once, except rows of integers and
  /// of images, which have no values of this kind.
  Nonfinite nonfinite() const;
  /// Returns "2 values are NaN or infinite, first in row 8 of x.npy".
  std::string nonfinite_text(const Nonfinite& found) const;
  /// Returns true if rows are images, which are decoded and perhaps augmented when they are read.
  bool is_decoded() const { return source_->is_decoded(); }
  /// Returns true if reading all rows before the first step would take long: rows are decoded, or
  /// have more than 256 MiB.
  bool is_long() const;

 private:
  /// What one thread uses to read rows.
  struct Worker {
    Scratch scratch;
    std::vector<std::byte> gathered;  // the source rows of a window
  };

  int64_t source_row(int64_t row, int64_t offset) const;
  RowDraws draws_of(const BatchRows& batch, size_t i) const;
  void read_row(const BatchRows& batch, size_t i, DType dtype, std::byte* out, Worker& worker);
  std::span<const std::byte> checked_elements(int64_t row, const RowDraws& draws,
                                              Worker& worker) const;
  std::span<const std::byte> elements(int64_t row, const RowDraws& draws, Worker& worker) const;
  void convert(std::span<const std::byte> elements, int64_t row, DType dtype, std::byte* out);
  void finish(const RowDraws& draws, DType dtype, std::byte* out, Worker& worker);
  [[noreturn]] void refuse(const io::Misfit& misfit, int64_t row, DType dtype) const;

  std::string where_, dataset_;
  Shape row_shape_;
  std::shared_ptr<SourceRows> source_;
  RowRanges ranges_;
  RowSet rows_;
  std::optional<plan::Window> window_;
  ReadOptions options_;
  io::Affine affine_;
  size_t converted_;  // elements that are converted together: of a row, or of a source row
  io::RowConverter converter_;
  io::RowConverter rounder_;  // of float64, after a final pass
  std::vector<Worker> workers_;
};

}  // namespace flow::data
