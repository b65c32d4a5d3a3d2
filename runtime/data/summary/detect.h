// Detects the form of CSV files: their delimiter, whether they have a header, and the types of
// their columns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace flow::data {

/// A column of a CSV file. It is a column of numbers or bools if each field is one or is missing,
/// and else a column of categories.
struct DetectedColumn {
  enum class Type : uint8_t { kNumber, kBool, kCategory };

  std::string name;  // in the header, or the index of the column
  Type type = Type::kCategory;
  int64_t missing = 0;
  /// The distinct fields that are not missing and their numbers of rows, or nothing if there are
  /// more than kMostDistinct or if one has more than kLongestValue bytes.
  std::optional<std::map<std::string, int64_t>> values;
  std::vector<std::string> missing_spellings;  // of numbers and bools, other than the empty field
  bool is_whole = true;                        // all numbers are whole
  double mean = 0, std = 0;                    // of numbers

  static constexpr size_t kMostDistinct = 50'000, kLongestValue = 1000;

  bool is_constant() const { return values && values->size() <= 1; }
};

struct DetectedCsv {
  char delimiter = ',';
  bool header = true;
  int64_t rows = 0;      // without the header and bad rows
  int64_t bad_rows = 0;  // with another number of fields than the first record, or not UTF-8
  std::vector<DetectedColumn> columns;

  /// Returns the largest number of categories with which a column is useful: a twentieth of the
  /// rows, but at least 50.
  size_t most_categories() const;
};

/// Returns the delimiter among comma, semicolon, tab and bar for which the most of the first 100
/// records have the same number of fields, which is at least 2. If several do, the one with more
/// fields, and else the first. Returns the comma for a file of one column. Throws RunError as
/// CsvRecords, if the file cannot be read with any of them.
char detect_delimiter(const fs::path& path);

/// Returns true if the first record has no number, and a later one has.
bool detect_header(std::span<const std::vector<std::string>> records);

/// Reads the whole file, whose dialect is the default except for the delimiter. Throws RunError as
/// CsvRecords, and if the file has no rows.
DetectedCsv detect_csv(const fs::path& path);

}  // namespace flow::data
