// The value of one field as a request reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/csv/csv.h"
#include "runtime/data/csv/lexer.h"
#include "runtime/data/csv/numbers.h"

namespace flow::data {

enum class CellFault : uint8_t {
  kNone,
  kMissing,  // only a fault if missing values are not allowed
  kTextAfterQuote,
  kInvalidUtf8,
  kNotNumber,
  kNumberRange,
  kNotInteger,
  kIntegerFraction,
  kIntegerRange,
  kNotBool,
  kAbsolutePath,
  kParentPath,
};

/// A value of the type of its request.
struct CsvCell {
  double number = 0;
  int64_t integer = 0;
  std::string_view text;  // valid as long as the field and the parser's last result
};

/// Converts fields of one request.
class CellParser {
 public:
  CellParser(const CsvRequest& request, const CsvDialect& dialect);
  CellFault parse(const CsvField& field, CsvCell& cell);
  /// Returns the message and hint for a fault of a field, without a place.
  RunError error(CellFault fault, const CsvField& field, const std::string& column) const;

 private:
  CellFault parse_present(std::string_view text, CsvCell& cell) const;
  bool is_missing(std::string_view text) const;
  bool is_listed_missing(std::string_view text) const;
  CellFault parse_text(std::string_view text, CsvCell& cell);
  CellFault path_fault(std::string_view path) const;
  std::string number_hint(std::string_view text) const;

  const CsvRequest& request_;
  bool latin1_;
  CsvMarks marks_;
  std::string utf8_;  // the last text that was converted from ISO 8859-1
};

/// Returns a text of ISO 8859-1 in UTF-8.
std::string utf8_of_latin1(std::string_view text);

}  // namespace flow::data
