// The rows of a column as its files hold them, before scaling and normalization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/data/image/image.h"
#include "runtime/data/sources/learned.h"
#include "runtime/io/npy.h"

namespace flow::data {

/// The elements of a source: their dtype in memory, and the form that they have in the file.
struct StoredElement {
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
  bool augments = true;  // false: the row as it is before augmentation
};

/// The memory in which one thread decodes rows. It is reused from row to row.
struct Scratch {
  std::vector<std::byte> bytes;
  std::vector<int64_t> ids;
  std::vector<double> numbers;
  Image image, other;
};

/// Thrown for a row that a dataset can skip. The message contains the place of the row.
class BadRowError : public RunError {
 public:
  using RunError::RunError;
  explicit BadRowError(const RunError& error) : RunError(error) {}
};

struct CategoryCells;

/// The rows of one or several files, which form one stream. Several threads may call all members
/// except `apply` and `recovering`, each with a scratch of its own.
class SourceRows {
 public:
  virtual ~SourceRows() = default;

  virtual int64_t rows() const = 0;
  virtual StoredElement element() const = 0;
  /// The number of elements of a row, or 0 if rows are images, which `read` leaves in
  /// `scratch.image`.
  virtual int64_t row_elements() const = 0;
  /// The name under which users find a row: "row 12 of data/labels.npy", "houses.csv:17:9".
  virtual std::string row_text(int64_t row) const = 0;
  /// The first row of each file.
  virtual std::vector<int64_t> file_starts() const { return {0}; }
  /// The files that the rows name, such as the images of a CSV file.
  virtual std::vector<fs::path> row_files() const { return {}; }
  /// Returns the rows that are known to be bad without decoding them, in ascending order.
  virtual std::vector<int64_t> bad_rows() const { return {}; }
  /// Returns the error of a bad row, whose message begins with its place.
  virtual RunError bad_row(int64_t row) const;
  /// Returns true if reading a row takes long enough for several threads.
  virtual bool is_decoded() const { return false; }
  /// Calls `read`. Throws RunError if a file shrank in the meantime.
  virtual void recovering(const std::function<void()>& read) const { read(); }

  /// Returns the elements of `count` rows from `row`, if they are next to each other in memory.
  virtual std::span<const std::byte> in_place(int64_t, int64_t) const { return {}; }
  /// Returns the elements of a row, in the file or in `scratch`. Throws BadRowError if the row
  /// cannot be decoded. REQUIRES: 0 <= row < rows().
  virtual std::span<const std::byte> read(int64_t row, const RowDraws& draws,
                                          Scratch& scratch) const = 0;
  /// Returns true if `finish` changes rows.
  virtual bool has_final_pass() const { return false; }
  /// Called with the values of a row after scaling and normalization, in float64. `row` is their
  /// shape.
  virtual void finish(const RowDraws&, const Shape&, std::span<double>) const {}

  /// Returns true if the element is missing and was not replaced yet.
  virtual bool is_missing(int64_t, int64_t) const { return false; }
  /// Returns the texts of rows of categories, or null for other rows.
  virtual const CategoryCells* categories() const { return nullptr; }
  /// Returns the size of an image as its file has it, or nothing if rows are not images. Throws
  /// BadRowError if the file cannot be read.
  virtual std::optional<ImageSize> stored_size(int64_t, Scratch&) const { return {}; }
  /// Learns what only this kind of source can learn: replacements, categories, characters. `rows`
  /// are rows of the source, in order.
  virtual void learn(std::span<const int64_t>, LearnedColumn&) const {}
  /// Returns a number for each of these rows, equal for rows with equal values. The numbers of
  /// categories are in the order of their bytes.
  virtual std::vector<int64_t> class_ids(std::span<const int64_t> rows) const;
  /// Uses learned values. Returns the rows that are bad because of them, in ascending order; their
  /// errors are those of bad_row().
  virtual std::vector<int64_t> apply(const LearnedColumn&) { return {}; }
};

}  // namespace flow::data
