// The records of a CSV file as texts, for programs that show or examine the start of a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/csv/csv.h"
#include "runtime/data/csv/lexer.h"

namespace flow::data {

/// The largest size of a record whose fields are all kept.
inline constexpr size_t kLargestCsvRecord = size_t{64} << 20;

/// Returns the fields of the lexer's record in UTF-8. Text after a closing quote is part of its
/// field. Throws RunError if the record has more than kLargestCsvRecord bytes.
std::vector<std::string> record_texts(CsvLexer& lexer, const CsvDialect& dialect);

/// Reads records one after another. A header is a record like any other.
class CsvRecords {
 public:
  /// Throws RequestError in the cases of check_dialect(), and RunError if the file cannot be read.
  CsvRecords(const fs::path& path, const CsvDialect& dialect);
  /// Reads the next record, and returns false at the end of the file. The fields are valid until
  /// the next call. Throws RunError for the fatal errors of CsvSource::read().
  bool next(std::vector<std::string_view>& fields);
  /// Returns the line where the record starts.
  int64_t line() const { return lexer_.line(); }

 private:
  CsvDialect dialect_;
  CsvLexer lexer_;
  std::vector<std::string> texts_;
};

}  // namespace flow::data
