// Reads CSV files of unknown form.
#include "runtime/data/summary/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <tuple>
#include <unordered_map>

#include "runtime/base/error.h"
#include "runtime/data/csv/cells.h"
#include "runtime/data/csv/records.h"

namespace flow::data {
namespace {

constexpr size_t kFirstRecords = 100;

using Record = std::vector<std::string>;

/// Returns the first records of a file.
std::vector<Record> first_records(const fs::path& path, char delimiter) {
  CsvRecords records(path, {.delimiter = delimiter});
  std::vector<Record> first;
  for (std::vector<std::string_view> fields; first.size() < kFirstRecords && records.next(fields);)
    first.emplace_back(fields.begin(), fields.end());
  return first;
}

/// How well a delimiter fits: the number of records that have the most frequent number of fields,
/// and that number of fields.
using Score = std::tuple<size_t, size_t>;

Score score_of(const std::vector<Record>& records) {
  std::map<size_t, size_t> counts;
  for (const Record& record : records) ++counts[record.size()];
  Score best{0, 0};
  for (const auto& [fields, count] : counts)
    if (fields > 1) best = std::max(best, Score{count, fields});
  return best;
}

bool is_number(const std::string& field) {
  double value;
  return parse_csv_number(field, {}, value) == NumberFault::kNone;
}

/// Parses fields as each of the types that are detected.
struct FieldParsers {
  CsvRequest number_request{.columns = {}, .type = CsvType::kNumber};
  CsvRequest bool_request{.columns = {}, .type = CsvType::kBool};
  CsvRequest text_request{.columns = {}, .type = CsvType::kText};
  CellParser numbers{number_request, {}}, bools{bool_request, {}}, texts{text_request, {}};

  bool is_utf8(std::string_view text) {
    CsvCell cell;
    return texts.parse({.text = text}, cell) == CellFault::kNone;
  }
};

/// Collects what the fields of a column have in common.
class ColumnDetector {
 public:
  void add(std::string_view text, FieldParsers& parsers) {
    CsvCell cell;
    const CellFault fault = parsers.numbers.parse({.text = text}, cell);
    if (fault == CellFault::kMissing) return add_missing(text);
    if (fault == CellFault::kNone)
      add_number(cell.number);
    else
      all_numbers_ = false;
    all_bools_ = all_bools_ && parsers.bools.parse({.text = text}, cell) == CellFault::kNone;
    add_value(std::string(text));
  }

  /// Returns the column. Called once.
  DetectedColumn column(std::string name) {
    using Type = DetectedColumn::Type;
    DetectedColumn column{
        .name = std::move(name), .missing = missing_, .values = {}, .missing_spellings = {}};
    if (has_values_)
      column.type = all_numbers_ ? Type::kNumber : all_bools_ ? Type::kBool : Type::kCategory;
    column.is_whole = is_whole_;
    column.mean = mean_;
    column.std = numbers_ > 0 ? std::sqrt(squares_ / static_cast<double>(numbers_)) : 0;
    for (const auto& [text, rows] : spellings_) {
      if (column.type != Type::kCategory) {
        column.missing_spellings.push_back(text);
        continue;
      }
      column.missing -= rows;  // `NA` is a category like any other
      values_[text] += rows;
    }
    if (!overflows_) column.values.emplace(values_.begin(), values_.end());
    return column;
  }

 private:
  void add_missing(std::string_view text) {
    ++missing_;
    if (!text.empty()) ++spellings_[std::string(text)];
  }

  /// Adds a number to the mean and the sum of squares: Welford, Technometrics 4 (1962).
  void add_number(double value) {
    ++numbers_;
    const double distance = value - mean_;
    mean_ += distance / static_cast<double>(numbers_);
    squares_ += distance * (value - mean_);
    is_whole_ = is_whole_ && value == std::trunc(value);
  }

  void add_value(std::string text) {
    has_values_ = true;
    if (overflows_) return;
    overflows_ = text.size() > DetectedColumn::kLongestValue;
    ++values_[std::move(text)];
    overflows_ |= values_.size() > DetectedColumn::kMostDistinct;
    if (overflows_) values_.clear();
  }

  bool all_numbers_ = true, all_bools_ = true, is_whole_ = true;
  bool has_values_ = false, overflows_ = false;
  int64_t missing_ = 0, numbers_ = 0;
  double mean_ = 0, squares_ = 0;
  std::unordered_map<std::string, int64_t> values_;
  std::map<std::string, int64_t> spellings_;  // of missing numbers, such as `NA`
};

std::vector<std::string> names_of_columns(const Record& first, bool header) {
  std::vector<std::string> names;
  for (const std::string& field : first)
    names.push_back(header ? field : std::to_string(names.size()));
  return names;
}

}  // namespace

size_t DetectedCsv::most_categories() const {
  constexpr size_t kFew = 50;
  return std::min(DetectedColumn::kMostDistinct, std::max(kFew, static_cast<size_t>(rows) / 20));
}

char detect_delimiter(const fs::path& path) {
  char best = ',';
  Score best_score{0, 0};
  std::exception_ptr error;
  bool read = false;
  for (const char delimiter : {',', ';', '\t', '|'}) try {
      const Score score = score_of(first_records(path, delimiter));
      read = true;
      if (score > best_score) std::tie(best, best_score) = std::tuple(delimiter, score);
    } catch (const RunError&) {
      if (!error) error = std::current_exception();
    }
  if (!read) std::rethrow_exception(error);
  return best;
}

bool detect_header(std::span<const std::vector<std::string>> records) {
  if (records.empty()) return false;
  const auto has_number = [](const Record& record) {
    return std::ranges::any_of(record, is_number);
  };
  return !has_number(records.front()) && std::ranges::any_of(records.subspan(1), has_number);
}

DetectedCsv detect_csv(const fs::path& path) {
  DetectedCsv csv{.delimiter = detect_delimiter(path), .columns = {}};
  const std::vector<Record> first = first_records(path, csv.delimiter);
  csv.header = detect_header(first);
  if (first.size() <= size_t{csv.header})
    throw RunError(fmt::format("{} has no rows", path.string()), "check the file");
  FieldParsers parsers;
  std::vector<ColumnDetector> columns(first.front().size());
  CsvRecords records(path, {.delimiter = csv.delimiter});
  std::vector<std::string_view> fields;
  if (csv.header) records.next(fields);
  while (records.next(fields)) {
    const bool good =
        fields.size() == columns.size() &&
        std::ranges::all_of(fields, [&](std::string_view text) { return parsers.is_utf8(text); });
    ++(good ? csv.rows : csv.bad_rows);
    for (size_t i = 0; good && i < columns.size(); ++i) columns[i].add(fields[i], parsers);
  }
  std::vector<std::string> names = names_of_columns(first.front(), csv.header);
  for (size_t i = 0; i < columns.size(); ++i)
    csv.columns.push_back(columns[i].column(std::move(names[i])));
  return csv;
}

}  // namespace flow::data
