// Datasets: columns of rows in files, converted a batch at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/io/npy.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {

/// Elements of `dtype` in C order, the first axis counting rows. Moving keeps `data` valid.
struct Rows {
  DType dtype = DType::kUInt8;
  Narrow narrow = Narrow::kNo;
  Shape shape;
  bool big_endian = false;
  std::span<const std::byte> data;

  std::optional<MappedFile> file;       // one of these two owns the data
  std::unique_ptr<std::byte[]> memory;  // what was compressed, or in another order
};

/// Throws where the shape of a file, rows first, is not the expected one.
using CheckShape = std::function<void(const Shape&)>;

/// An idx file (the format of MNIST), plain or gzip. RunError: not idx, truncated, too long, a
/// gzip stream that is damaged. Nothing is unpacked before `check` has seen the shape, and nothing
/// is allocated that the file's own size does not warrant.
Rows read_idx_rows(const fs::path& path, const CheckShape& check);

/// A .npy file, mapped where it is in C order.
Rows read_npy_rows(const fs::path& path, const CheckShape& check);

/// An array of an .npz file, mapped where it is stored as it is and in C order; nothing is unpacked
/// before `check` has seen the shape.
Rows read_npz_rows(const fs::path& path, const std::string& array, const CheckShape& check);

/// Rows of single bytes as they lie in their file, and what the bytes mean.
struct ByteRows {
  std::vector<std::span<const std::byte>> parts;  // each [rows, elements of a row]
  size_t channels = 1;                            // leading axis of a row, or 1
  std::span<const std::byte> table;               // [channels, 256] of the dtype asked for
};

/// Values of a column that are NaN or infinite.
struct Nonfinite {
  int64_t count = 0;
  int64_t row = 0;  // in the file: the first row that has one
};

/// The rows of one file, mapped, or in memory where they are packed or of another order; in the
/// file's dtype.
class ColumnReader {
 public:
  /// Opens and checks the file: magic, dtype, extents, length, gzip's checksum. `root` is what the
  /// column's path is relative to. RunError (it names column.where, the path, what was found and
  /// what was expected) when it is missing, truncated, too long, not of that format, or when its
  /// rows are not column.row_shape.
  static std::unique_ptr<ColumnReader> open(const plan::Column& column, const fs::path& root);
  virtual ~ColumnReader() = default;
  virtual int64_t rows() const = 0;
  virtual const Shape& row_shape() const = 0;
  /// A row as users find it in their file: "row 12 of data/labels.npy".
  virtual std::string row_text(int64_t row) const = 0;
  /// Writes row `rows[i]` to the i-th row of `out`, converted: (x * scale - mean) / std in float64,
  /// rounded once to `dtype` (integers: must be whole and in range, else RunError). Allocates
  /// nothing, is safe from one thread at a time.
  virtual void read(std::span<const int64_t> rows, DType dtype, std::span<std::byte> out) = 0;
  /// For those that look bytes up themselves: the table gives the bits that `read` gives. Nothing
  /// where the file holds no bytes, or one that has no value in `dtype`. Valid until rows are read
  /// as another dtype.
  virtual std::optional<ByteRows> byte_rows(DType dtype) = 0;
  /// Reads all rows once, but those of integers, which have none.
  virtual Nonfinite nonfinite() = 0;
};

/// A dataset: its columns, of equal length.
class Dataset {
 public:
  Dataset(const plan::Dataset& dataset, const fs::path& root);
  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  ColumnReader& column(std::string_view name);

 private:
  std::string name_;
  int64_t rows_ = 0;
  std::vector<std::pair<std::string, std::unique_ptr<ColumnReader>>> columns_;
};

}  // namespace flow::io
