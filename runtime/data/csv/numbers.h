// Numbers, integers and bools as CSV files write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace flow::data {

/// The characters of a number that depend on the country.
struct CsvMarks {
  char decimal = '.';
  std::optional<char> thousands = {};
};

enum class NumberFault : uint8_t {
  kNone,
  kSyntax,    // not a number at all
  kRange,     // outside of float64 or int64
  kFraction,  // not whole
};

/// Returns the text without the spaces and tabs around it.
std::string_view without_blanks(std::string_view text);

/// Parses `[+-]? (D+ (. D*)? | . D+) ([eE] [+-]? D+)?`, with spaces and tabs around it, and rounds
/// to the nearest float64. Digits before the decimal mark may be in groups of three, with a
/// thousands mark between them. `value` is set if the result is kNone.
NumberFault parse_csv_number(std::string_view text, const CsvMarks& marks, double& value);

/// Parses the same grammar as an exact decimal number, such as `3.0` or `1e3`, which must be whole
/// and within int64.
NumberFault parse_csv_integer(std::string_view text, const CsvMarks& marks, int64_t& value);

/// Parses `true false yes no t f y n on off 1 0` in any ASCII case, with spaces and tabs around it.
std::optional<bool> parse_csv_bool(std::string_view text);

}  // namespace flow::data
