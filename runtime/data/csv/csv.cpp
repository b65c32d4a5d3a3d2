// Reads the rows of CSV files into columns, and finds the places of rows again.
#include "runtime/data/csv/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/data/csv/cells.h"
#include "runtime/data/csv/columns.h"
#include "runtime/data/csv/rows.h"

namespace flow::data {

namespace {

void require_ascii(char c, const char* key) {
  if (c > '\0' && c < '\x7F' && c != '\n' && c != '\r') return;
  throw RequestError(fmt::format("`{}` is not an ASCII character other than a line end", key),
                     fmt::format("set `{}` to one ASCII character", key));
}

void require_mark(char c, const char* key) {
  require_ascii(c, key);
  constexpr std::string_view kNumberCharacters = "0123456789+-eE";
  if (kNumberCharacters.find(c) != std::string_view::npos)
    throw RequestError(fmt::format("`{}` is \"{}\", which numbers contain", key, c),
                       fmt::format("set `{}` to a mark such as `.` or `,`", key));
}

/// Parsers of all requests.
std::vector<CellParser> parsers_of(const CsvSource& source) {
  std::vector<CellParser> parsers;
  for (const CsvRequest& request : source.requests())
    parsers.emplace_back(request, source.dialect());
  return parsers;
}

/// A field that becomes one number and nothing else. Other fields have no column.
struct NumberField {
  ColumnBuilder* column = nullptr;
  size_t position = 0;
};

/// Returns true if no character of a plain number ends or quotes a field.
bool separates_plain_numbers(const CsvDialect& dialect) {
  const std::string characters = std::string("0123456789-") + dialect.decimal;
  return std::endian::native == std::endian::little &&
         characters.find(dialect.delimiter) == characters.npos &&
         (!dialect.quote || characters.find(*dialect.quote) == characters.npos);
}

/// Reads all rows into columns, which grow by doubling.
class TableReader {
 public:
  explicit TableReader(const CsvSource& source)
      : source_(source), rows_(source), parsers_(parsers_of(source)) {}

  CsvTable read() {
    while (rows_.next()) {
      const auto row = static_cast<size_t>(rows_.row());
      if (row == capacity_) grow();
      if (!read_row(row)) table_.bad_rows.push_back(rows_.row());
    }
    table_.rows = rows_.row() + 1;
    if (table_.rows == 0)
      throw RunError(fmt::format("{} has no rows", source_.files().front().string()),
                     "check the file, and `skip`, `header` and `comment`");
    for (ColumnBuilder& column : columns_)
      table_.columns.push_back(column.take(static_cast<size_t>(table_.rows)));
    table_.first_rows = rows_.first_rows();
    return std::move(table_);
  }

 private:
  /// Makes room for more rows, in steps small enough that new cells are still in the CPU cache when
  /// they are filled.
  void grow() {
    constexpr size_t kFirstRows = 16, kMostRows = 4096;
    if (capacity_ == 0) create_columns();
    if (capacity_ == kMostRows) reserve();
    capacity_ += std::clamp(capacity_, kFirstRows, kMostRows);
    require_memory();
    for (ColumnBuilder& column : columns_) column.resize(capacity_);
  }

  /// Reserves the memory that all rows need if they resemble those read so far. Cells take at most
  /// eight times the size of their text and delimiter.
  void reserve() {
    uint64_t bytes = 0;
    for (const fs::path& file : source_.files()) {
      std::error_code ignored;
      const uintmax_t size = fs::file_size(file, ignored);
      if (!ignored) bytes += size;
    }
    const uint64_t row_bytes = rows_.lexer().bytes_read() / capacity_;
    for (size_t i = 0; i < columns_.size(); ++i)
      if (const auto width = static_cast<uint64_t>(rows_.fields().widths[i]); row_bytes > width)
        columns_[i].reserve(bytes / row_bytes * 65 / 64);
  }

  void create_columns() {
    for (size_t i = 0; i < source_.requests().size(); ++i)
      columns_.emplace_back(source_.requests()[i].type, rows_.fields().widths[i]);
    if (!separates_plain_numbers(source_.dialect())) return;
    for (const std::vector<CsvTarget>& targets : rows_.fields().targets) {
      NumberField& field = number_fields_.emplace_back();
      if (targets.size() != 1) continue;
      const CsvRequest& request = source_.requests()[targets[0].request];
      if (request.type == CsvType::kNumber && !request.missing_values)
        field = {&columns_[targets[0].request], targets[0].position};
    }
  }

  /// Throws RunError if the rows do not fit in memory. The file's size does not bound the memory,
  /// because a short record takes as much as a whole row.
  void require_memory() const {
    constexpr size_t kSmall = size_t{1} << 26;
    size_t row_bytes = 0;
    for (const int64_t width : rows_.fields().widths)
      row_bytes += static_cast<size_t>(width) * sizeof(CsvColumn::Text);
    if (capacity_ < kSmall / std::max<size_t>(row_bytes, 1)) return;
    if (const size_t available = available_memory(); capacity_ / 2 > available / row_bytes)
      throw RunError(fmt::format("{} has more rows than the {} of available memory can hold",
                                 source_.files().front().string(), human_bytes(available)),
                     "read fewer columns, or convert the data to .npy files");
  }

  /// Returns false for a bad row.
  bool read_row(size_t row) {
    bool good = true;
    read_numbers(row);
    for (CsvField field; rows_.next_field(field); read_numbers(row)) {
      good &= !field.text_after_quote;
      for (const CsvTarget& target : rows_.targets()) good &= read_cell(row, target, field);
    }
    return good && rows_.is_complete();
  }

  /// Reads fields as long as they are numbers of the common form.
  void read_numbers(size_t row) {
    PlainNumber number;
    double value;
    while (rows_.fields_read() < number_fields_.size()) {
      const NumberField& field = number_fields_[rows_.fields_read()];
      if (!field.column || !rows_.next_plain_number(source_.dialect().decimal, number)) return;
      if (!round_plain_number(number, value)) [[unlikely]]
        value = round_any_plain_number(number);
      field.column->store_number(row, field.position, value);
    }
  }

  bool read_cell(size_t row, const CsvTarget& target, const CsvField& field) {
    CsvCell cell;
    const CellFault fault = parsers_[target.request].parse(field, cell);
    ColumnBuilder& column = columns_[target.request];
    if (fault == CellFault::kNone) [[likely]]
      column.store(row, target.position, cell);
    else if (fault == CellFault::kMissing)
      column.store_missing(row, target.position);
    return fault == CellFault::kNone ||
           (fault == CellFault::kMissing && source_.requests()[target.request].missing_allowed);
  }

  const CsvSource& source_;
  CsvRows rows_;
  std::vector<CellParser> parsers_;
  std::vector<ColumnBuilder> columns_;
  std::vector<NumberField> number_fields_;  // by index of the field; empty if none can be used
  size_t capacity_ = 0;                     // rows for which the columns have room
  CsvTable table_;
};

/// Moves to a later row, whose fields are still to be read.
void move_to(const CsvSource& source, CsvRows& rows, int64_t row) {
  while (rows.next()) {
    if (rows.row() == row) return;
    rows.skip();
  }
  throw RunError(fmt::format("{} changed while it was read", source.files().back().string()));
}

RunError wrong_count(const CsvRows& rows) {
  return RunError(fmt::format("{}: the record has {}, expected {}", rows.lexer().record_place(),
                              counted(rows.fields_read(), "field"), rows.expected_fields()),
                  "quote fields that contain the delimiter, or add `options: {on_bad_row: skip}`");
}

/// Returns the error of the field that was read last, or nothing if it is valid.
std::optional<RunError> field_error(const CsvSource& source, const CsvRows& rows,
                                    const CsvField& field) {
  const std::string name = rows.name_of(rows.fields_read() - 1);
  const std::string place = rows.lexer().field_place();
  for (const CsvTarget& target : rows.targets()) {
    const CsvRequest& request = source.requests()[target.request];
    CellParser parser(request, source.dialect());
    CsvCell cell;
    const CellFault fault = parser.parse(field, cell);
    if (fault == CellFault::kNone || (fault == CellFault::kMissing && request.missing_allowed))
      continue;
    return parser.error(fault, field, name).at(place);
  }
  if (!field.text_after_quote) return {};
  const CsvRequest any;
  return CellParser(any, source.dialect()).error(CellFault::kTextAfterQuote, field, name).at(place);
}

/// Reads the fields of a bad row and returns its error.
RunError row_error(const CsvSource& source, CsvRows& rows) {
  std::optional<RunError> first;
  for (CsvField field; rows.next_field(field);)
    if (!first) first = field_error(source, rows, field);
  if (!rows.is_complete()) return wrong_count(rows);
  if (first) return *first;
  return RunError(
      fmt::format("{}: the file changed while it was read", rows.lexer().record_place()));
}

}  // namespace

void check_dialect(const CsvDialect& dialect) {
  require_ascii(dialect.delimiter, "delimiter");
  require_mark(dialect.decimal, "decimal");
  if (dialect.quote) require_ascii(*dialect.quote, "quote");
  if (dialect.thousands) require_mark(*dialect.thousands, "thousands");
  if (dialect.quote == dialect.delimiter)
    throw RequestError("`quote` and `delimiter` are the same character", "change one of them");
  if (dialect.thousands == dialect.decimal)
    throw RequestError("`thousands` and `decimal` are the same character", "change one of them");
}

CsvSource::CsvSource(std::vector<fs::path> files, CsvDialect dialect,
                     std::vector<CsvRequest> requests)
    : files_(std::move(files)), dialect_(std::move(dialect)), requests_(std::move(requests)) {
  check_dialect(dialect_);
  FLOW_CHECK(!files_.empty());
}

CsvTable CsvSource::read() const { return TableReader(*this).read(); }

RunError CsvSource::bad_row(int64_t row) const { return bad_rows({&row, 1}).front(); }

std::vector<RunError> CsvSource::bad_rows(std::span<const int64_t> bad) const {
  std::vector<RunError> errors;
  CsvRows rows(*this);
  for (const int64_t row : bad) {
    move_to(*this, rows, row);
    errors.push_back(row_error(*this, rows));
  }
  return errors;
}

std::string CsvSource::place(int64_t row, size_t request, int64_t position) const {
  CsvRows rows(*this);
  move_to(*this, rows, row);
  for (CsvField field; rows.next_field(field);)
    for (const CsvTarget& target : rows.targets())
      if (target.request == request && target.position == static_cast<size_t>(position))
        return rows.lexer().field_place();
  return rows.lexer().record_place();
}

}  // namespace flow::data
