// The rows of a column as its files hold them, before scaling and normalization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/data/bad_row.h"
#include "runtime/data/image/image.h"
#include "runtime/data/learned.h"
#include "runtime/io/npy.h"

namespace flow::data {

/// The type of the elements of a source.
struct ElementType {
  DType dtype = DType::kUInt8;
  io::Narrow narrow = io::Narrow::kNo;
  bool big_endian = false;

  size_t bytes() const { return io::stored_size(dtype, narrow); }
};

/// The draws with which a row is augmented. The row is that of the dataset or part.
struct RowDraws {
  uint64_t seed = 0;
  std::string_view dataset;  // "pets" or "pets/train"
  int64_t row = 0;
  uint32_t epoch = 0;
  uint32_t attempt = 0;  // the number of earlier uses of the row in this epoch
  bool training = false;
};

/// The memory in which one thread decodes rows. It is reused from row to row.
struct Scratch {
  std::vector<std::byte> bytes;
  std::vector<double> numbers;
  Image image, other;
};

/// The rows of one or several files, which form one stream. All members but `apply` may be called
/// by several threads, each with a scratch of its own.
class SourceRows {
 public:
  virtual ~SourceRows() = default;

  virtual int64_t rows() const = 0;
  virtual ElementType element() const = 0;
  /// The shape of a row. Rows of images whose size is not known are checked when they are decoded.
  virtual const Shape& row_shape() const = 0;
  /// The name under which users find a row: "row 12 of data/labels.npy", "houses.csv:17:9".
  virtual std::string row_text(int64_t row) const = 0;
  /// The first row of each file.
  virtual std::vector<int64_t> file_starts() const { return {0}; }
  /// The rows that are known to be bad without decoding them.
  virtual std::vector<BadRow> bad_rows() const { return {}; }
  /// Returns true if reading a row takes long enough for several threads.
  virtual bool is_decoded() const { return false; }
  /// Calls `read`. Throws RunError if a file shrank in the meantime.
  virtual void recovering(const std::function<void()>& read) const { read(); }

  /// Returns the elements of `count` rows from `row`, if they are next to each other in memory.
  virtual std::span<const std::byte> in_place(int64_t, int64_t) const { return {}; }
  /// Returns the elements of a row, in the file or in `scratch.bytes` or `scratch.image`. Throws
  /// BadRowError if the row cannot be decoded. REQUIRES: 0 <= row < rows().
  virtual std::span<const std::byte> read(int64_t row, const RowDraws& draws,
                                          Scratch& scratch) const = 0;
  /// Called after scaling and normalization, with the values (row shape) in float64. Returns false
  /// if there is nothing to do after normalization.
  virtual bool has_final_pass() const { return false; }
  virtual void finish(const RowDraws&, std::span<double>) const {}

  /// Returns true if the element is missing and was not replaced yet.
  virtual bool is_missing(int64_t, int64_t) const { return false; }
  /// Learns what only this kind of source can learn: replacements, categories, characters. `rows`
  /// are rows of the source, in order.
  virtual void learn(std::span<const int64_t>, LearnedColumn&) const {}
  /// Returns a number for each of these rows, equal for rows with equal values. The numbers of
  /// categories are in the order of their bytes.
  virtual std::vector<int64_t> class_ids(std::span<const int64_t> rows) const;
  /// Uses learned values. Returns the rows that are bad because of them.
  virtual std::vector<BadRow> apply(const LearnedColumn&) { return {}; }
};

/// Thrown by SourceRows::read for a row that on_bad_row can skip.
class BadRowError : public RunError {
 public:
  explicit BadRowError(BadRow bad)
      : RunError(bad.place + ": " + bad.message, bad.hint), bad_(std::move(bad)) {}
  const BadRow& bad() const { return bad_; }

 private:
  BadRow bad_;
};

}  // namespace flow::data
