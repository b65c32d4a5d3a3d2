// Datasets, whose columns are rows in files that are converted a batch at a time.
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

/// Elements of `dtype` in C order, whose first axis counts the rows. `data` stays valid when Rows
/// is moved.
struct Rows {
  DType dtype = DType::kUInt8;
  Narrow narrow = Narrow::kNo;
  Shape shape;
  bool big_endian = false;
  std::span<const std::byte> data;

  std::optional<MappedFile> file;       // either this or `memory` owns the data
  std::unique_ptr<std::byte[]> memory;  // data that was compressed or in another order
};

/// A function that throws if the shape of a file, whose first axis counts the rows, is not the
/// expected one.
using CheckShape = std::function<void(const Shape&)>;

/// Reads an idx file (the format of MNIST), plain or gzipped. Throws RunError if the file is not
/// idx, is truncated or too long, or if its gzip stream is damaged. Nothing is unpacked before
/// `check` has seen the shape, and no more memory is allocated than the size of the file can
/// justify.
Rows read_idx_rows(const fs::path& path, const CheckShape& check);

/// Reads a .npy file. It is mapped if it is in C order.
Rows read_npy_rows(const fs::path& path, const CheckShape& check);

/// Reads an array of an .npz file. It is mapped if it is uncompressed and in C order. Nothing is
/// unpacked before `check` has seen the shape.
Rows read_npz_rows(const fs::path& path, const std::string& array, const CheckShape& check);

/// Rows of single bytes, unchanged from their file, and the values that the bytes mean.
struct ByteRows {
  std::vector<std::span<const std::byte>> parts;  // each [rows, elements of a row]
  size_t channels = 1;                            // extent of the leading axis of a row, or 1
  std::span<const std::byte> table;               // [channels, 256] of the requested dtype
};

/// Counts the values of a column that are NaN or infinite.
struct Nonfinite {
  int64_t count = 0;
  int64_t row = 0;  // index in the file of the first row that has one
};

/// Reads the rows of one file, in the file's dtype. They are mapped, or in memory if the file is
/// compressed or in another order.
class ColumnReader {
 public:
  /// Opens the file and checks its magic number, dtype, extents, length and gzip checksum. The
  /// column's path is relative to `root`. Throws RunError if the file is missing, truncated, too
  /// long or not of the column's format, or if its rows are not column.row_shape. The message
  /// states column.where, the path, what was found and what was expected.
  static std::unique_ptr<ColumnReader> open(const plan::Column& column, const fs::path& root);
  virtual ~ColumnReader() = default;
  virtual int64_t rows() const = 0;
  virtual const Shape& row_shape() const = 0;
  /// Returns the name under which users find a row in their file: "row 12 of data/labels.npy".
  virtual std::string row_text(int64_t row) const = 0;
  /// Writes row `rows[i]` to the i-th row of `out`, converted: (x * scale - mean) / std in float64,
  /// rounded once to `dtype`. Throws RunError if `dtype` is an integer and a result is not whole or
  /// out of range. Allocates nothing. Only one thread may call it at a time.
  virtual void read(std::span<const int64_t> rows, DType dtype, std::span<std::byte> out) = 0;
  /// Returns the rows for callers that look up bytes themselves; the table gives results that are
  /// bit-identical to those of `read`. Returns nothing if the file does not contain bytes, or if a
  /// byte has no value in `dtype`. The result is valid until rows are read as another dtype.
  virtual std::optional<ByteRows> byte_rows(DType dtype) = 0;
  /// Counts the values that are NaN or infinite. Reads all rows once, except rows of integers,
  /// which have no values of this kind.
  virtual Nonfinite nonfinite() = 0;
};

/// A dataset, whose columns have equal lengths.
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
