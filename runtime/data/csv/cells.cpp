// Converts fields to numbers, integers, bools and texts, and explains those that have no value.
#include "runtime/data/csv/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::data {

namespace {

bool is_ascii(std::string_view text) {
  uint64_t bits = 0;
  for (; text.size() >= sizeof bits; text.remove_prefix(sizeof bits)) {
    uint64_t block;
    std::memcpy(&block, text.data(), sizeof block);
    bits |= block;
  }
  for (const char c : text) bits |= static_cast<unsigned char>(c);
  return (bits & 0x8080808080808080) == 0;
}

bool is_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid) return false;
    at += character.bytes;
  }
  return true;
}

/// Returns true for types whose values are text, compared byte by byte.
bool is_textual(CsvType type) {
  return type == CsvType::kCategory || type == CsvType::kText || type == CsvType::kPath;
}

CellFault number_fault(NumberFault fault) {
  if (fault == NumberFault::kNone) return CellFault::kNone;
  return fault == NumberFault::kRange ? CellFault::kNumberRange : CellFault::kNotNumber;
}

CellFault integer_fault(NumberFault fault) {
  constexpr std::array kFaults = {CellFault::kNone, CellFault::kNotInteger,
                                  CellFault::kIntegerRange, CellFault::kIntegerFraction};
  return kFaults[static_cast<size_t>(fault)];
}

/// What is wrong with a value, and what to do.
struct Explanation {
  const char* problem;
  const char* hint;
};

Explanation explanation_of(CellFault fault) {
  switch (fault) {
    case CellFault::kTextAfterQuote:
      return {"has text after its closing quote",
              "double the quotes inside of fields, or set `quote: none`"};
    case CellFault::kNumberRange:
      return {"is too large for a float64", "correct the value, or list it in `missing_values`"};
    case CellFault::kNotInteger:
      return {"is not an integer", nullptr};
    case CellFault::kIntegerFraction:
      return {"is not an integer", "use `type: number` for fractions"};
    case CellFault::kIntegerRange:
      return {"does not fit in an int64", "use `type: number` or `type: category`"};
    case CellFault::kNotBool:
      return {"is not a bool", "use true, false, yes, no, t, f, y, n, on, off, 1 or 0"};
    case CellFault::kAbsolutePath:
      return {"is an absolute path", "use paths relative to the file's folder or to `root`"};
    case CellFault::kParentPath:
      return {"contains `..`", "use paths relative to the file's folder or to `root`"};
    default:
      return {"is not a number", nullptr};
  }
}

}  // namespace

std::string utf8_of_latin1(std::string_view text) {
  std::string utf8;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xC0 | byte >> 6);
      utf8 += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return utf8;
}

CellParser::CellParser(const CsvRequest& request, const CsvDialect& dialect)
    : request_(request), latin1_(dialect.latin1), marks_{dialect.decimal, dialect.thousands} {}

CellFault CellParser::parse(const CsvField& field, CsvCell& cell) {
  if (field.text_after_quote) return CellFault::kTextAfterQuote;
  if (is_textual(request_.type)) return parse_text(field.text, cell);
  // A listed spelling may be a number, such as -999.
  if (request_.missing_values && is_missing(field.text)) return CellFault::kMissing;
  const CellFault fault = parse_present(field.text, cell);
  if (fault == CellFault::kNone) return fault;
  if (is_missing(field.text)) return CellFault::kMissing;
  return latin1_ || is_utf8(field.text) ? fault : CellFault::kInvalidUtf8;
}

CellFault CellParser::parse_present(std::string_view text, CsvCell& cell) const {
  if (request_.type == CsvType::kNumber)
    return number_fault(parse_csv_number(text, marks_, cell.number));
  if (request_.type == CsvType::kInteger)
    return integer_fault(parse_csv_integer(text, marks_, cell.integer));
  const std::optional<bool> value = parse_csv_bool(text);
  cell.integer = value.value_or(false);
  return value ? CellFault::kNone : CellFault::kNotBool;
}

/// Returns true for the missing values of numbers, integers and bools, also with blanks around
/// them.
bool CellParser::is_missing(std::string_view text) const {
  const std::string_view inner = without_blanks(text);
  return inner.empty() || is_listed_missing(text) || is_listed_missing(inner);
}

bool CellParser::is_listed_missing(std::string_view text) const {
  constexpr std::array<std::string_view, 6> kSpellings = {"na", "n/a", "nan", "null", "none", "?"};
  if (!request_.missing_values) {
    const auto is_text = [&](std::string_view word) { return same_but_for_case(text, word); };
    return !is_textual(request_.type) && std::ranges::any_of(kSpellings, is_text);
  }
  const auto& listed = *request_.missing_values;
  if (!latin1_ || is_textual(request_.type) || is_ascii(text))
    return std::ranges::find(listed, text) != listed.end();
  return std::ranges::find(listed, utf8_of_latin1(text)) != listed.end();
}

CellFault CellParser::parse_text(std::string_view text, CsvCell& cell) {
  if (latin1_ && !is_ascii(text))
    text = utf8_ = utf8_of_latin1(text);
  else if (!is_utf8(text))
    return CellFault::kInvalidUtf8;
  if (text.empty() && request_.type != CsvType::kText) return CellFault::kMissing;
  if (is_listed_missing(text)) return CellFault::kMissing;
  cell.text = text;
  return request_.type == CsvType::kPath ? path_fault(text) : CellFault::kNone;
}

CellFault CellParser::path_fault(std::string_view path) const {
  if (path.starts_with('/')) return CellFault::kAbsolutePath;
  while (true) {
    const size_t slash = std::min(path.find('/'), path.size());
    if (path.substr(0, slash) == "..") return CellFault::kParentPath;
    if (slash == path.size()) return CellFault::kNone;
    path.remove_prefix(slash + 1);
  }
}

/// Suggests the marks with which the text is a number.
std::string CellParser::number_hint(std::string_view text) const {
  const auto is_number = [&](const CsvMarks& marks) {
    double value;
    return parse_csv_number(text, marks, value) == NumberFault::kNone;
  };
  for (const char mark : {',', '.', '\'', ' '})
    if (mark != marks_.decimal && !marks_.thousands && is_number({marks_.decimal, mark}))
      return fmt::format("set `thousands: \"{}\"` if that is what the mark means", mark);
  if (marks_.decimal == '.' && is_number({',', '.'}))
    return "set `decimal: \",\"` if the comma is the decimal mark";
  return "correct the value, list it in `missing_values`, or add `options: {on_bad_row: skip}`";
}

RunError CellParser::error(CellFault fault, const CsvField& field,
                           const std::string& column) const {
  const std::string in_column = fmt::format("(column {})", shortened(column));
  if (fault == CellFault::kMissing)
    return RunError(fmt::format("a value is missing {}", in_column),
                    "set `missing` to what replaces it, or `on_bad_row: skip`");
  if (fault == CellFault::kInvalidUtf8)
    return RunError(fmt::format("a field is not valid UTF-8 {}", in_column),
                    "set `encoding: latin-1`, or convert the file with `iconv -t UTF-8`");
  const auto [problem, hint] = explanation_of(fault);
  const std::string text = latin1_ ? utf8_of_latin1(field.text) : std::string(field.text);
  return RunError(fmt::format("\"{}\" {} {}", shortened(text), problem, in_column),
                  hint ? hint : number_hint(field.text));
}

}  // namespace flow::data
