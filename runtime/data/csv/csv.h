// CSV files (RFC 4180) as columns of numbers, integers, categories and texts. Several files are one
// stream of rows. Every file is treated as hostile: a field, a record and the window into a file
// are bounded, and the columns take memory in proportion to the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace flow::data {

/// The largest size of a field in bytes, and the largest number of fields in a record.
inline constexpr size_t kLargestCsvField = size_t{16} << 20;
inline constexpr size_t kMostCsvFields = size_t{1} << 16;

/// How a file writes its records.
struct CsvDialect {
  char delimiter = ',';
  std::optional<char> quote = '"';
  bool header = true;
  std::string comment = {};  // the start of lines to skip; empty if there are none
  int64_t skip = 0;          // physical lines to leave out at the start of each file
  bool trim = false;         // drops spaces and tabs around fields
  bool latin1 = false;       // the encoding is ISO 8859-1 instead of UTF-8
  char decimal = '.';
  std::optional<char> thousands = {};
};

/// Throws RequestError if characters of the dialect are not ASCII or have two meanings.
void check_dialect(const CsvDialect& dialect);

enum class CsvType : uint8_t {
  kNumber,    // float64
  kInteger,   // int64
  kBool,      // int64, 0 or 1
  kCategory,  // ids of distinct texts
  kText,      // bytes; an empty field is a text
  kPath,      // a relative path without `..`
};

/// A column to read, which consists of one or several fields of each record.
struct CsvRequest {
  /// The name of one field. If `list` is true, names and globs, whose matches follow the order of
  /// the header. Without a header, indices from 0 and, if `list` is true, ranges such as `4..8`,
  /// which exclude their end.
  std::vector<std::string> columns;
  bool list = false;
  CsvType type = CsvType::kNumber;
  /// The spellings of a missing value, compared exactly. By default, numbers, integers and bools
  /// have `na n/a nan null none ?` in any case. Except for texts, the empty field is always
  /// missing.
  std::optional<std::vector<std::string>> missing_values = {};
  bool missing_allowed = false;  // if false, a missing value makes a bad row
};

/// The values of a request: `width` cells in each row, in row order. Cells of bad rows and missing
/// values are 0 or empty.
struct CsvColumn {
  struct Text {
    uint64_t offset = 0;
    uint64_t size = 0;
  };

  int64_t width = 1;
  std::vector<double> numbers;          // for kNumber
  std::vector<int64_t> integers;        // for kInteger and kBool
  std::vector<int32_t> ids;             // for kCategory, indices into `categories`
  std::vector<std::string> categories;  // distinct texts in UTF-8, in order of first occurrence
  std::vector<Text> texts;              // for kText and kPath, parts of `bytes`
  std::string bytes;                    // UTF-8
  std::vector<uint8_t> missing;         // 1 for a missing value; empty if there is none

  std::string_view text(size_t cell) const {
    return std::string_view(bytes).substr(texts[cell].offset, texts[cell].size);
  }
};

struct CsvTable {
  int64_t rows = 0;
  std::vector<CsvColumn> columns;   // one for each request
  std::vector<int64_t> bad_rows;    // ascending
  std::vector<int64_t> first_rows;  // index of the first row of each file
};

/// CSV files, their dialect, and the columns to read.
class CsvSource {
 public:
  /// Throws RequestError in the cases of check_dialect().
  CsvSource(std::vector<fs::path> files, CsvDialect dialect, std::vector<CsvRequest> requests);

  /// Reads all rows of all files, which may be packed with gzip or zstd. Throws RunError with
  /// "FILE:LINE:COLUMN: ..." for an unterminated quote, NUL, a carriage return without a line feed,
  /// UTF-16, a field or a record that is too large, a wrong header, and if there are no rows.
  CsvTable read() const;

  /// Returns the error of a bad row, "FILE:LINE:COLUMN: ...". Reads the files again up to that row.
  RunError bad_row(int64_t row) const;
  /// Returns the errors of several bad rows, which are in ascending order. Reads the files once.
  std::vector<RunError> bad_rows(std::span<const int64_t> rows) const;

  /// Returns "FILE:LINE:COLUMN" of a cell: the line where its record starts, and the character
  /// where its field starts. Reads the files again up to that row. REQUIRES: position < width.
  std::string place(int64_t row, size_t request, int64_t position = 0) const;

  const std::vector<fs::path>& files() const { return files_; }
  const CsvDialect& dialect() const { return dialect_; }
  const std::vector<CsvRequest>& requests() const { return requests_; }

 private:
  std::vector<fs::path> files_;
  CsvDialect dialect_;
  std::vector<CsvRequest> requests_;
};

}  // namespace flow::data
