// The rows of all files of a CSV source, one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/csv/csv.h"
#include "runtime/data/csv/fields.h"
#include "runtime/data/csv/lexer.h"

namespace flow::data {

class CsvRows {
 public:
  explicit CsvRows(const CsvSource& source);

  /// Moves to the next row, and returns false after the last one. REQUIRES: all fields of the row
  /// before have been read.
  bool next();
  /// Reads the next field of the row, and returns false at the end of the row. Throws
  /// RunError if the first row has no such field as the requests read.
  bool next_field(CsvField& field);
  /// Reads the next field of the row if it is a number that CsvLexer::next_plain_number() reads.
  bool next_plain_number(char decimal, PlainNumber& number) {
    const bool is_number = lexer_->next_plain_number(decimal, number);
    read_ += is_number;
    return is_number;
  }
  /// Reads the rest of the row.
  void skip();

  int64_t row() const { return row_; }
  size_t fields_read() const { return read_; }
  /// Returns the number of fields of the first record, once its fields have been read.
  size_t expected_fields() const { return expected_; }
  bool is_complete() const { return read_ == expected_; }
  const CsvFields& fields() const { return fields_; }
  /// Returns the cells that the field which was read last becomes.
  std::span<const CsvTarget> targets() const {
    if (read_ > fields_.targets.size()) return {};
    return fields_.targets[read_ - 1];
  }
  const std::vector<int64_t>& first_rows() const { return first_rows_; }
  const CsvLexer& lexer() const { return *lexer_; }
  /// Returns the name of a field, or its index if there is no header.
  std::string name_of(size_t field) const;

 private:
  void open(const fs::path& path);
  void read_header(const fs::path& path);
  void end_row();

  const CsvSource& source_;
  std::unique_ptr<CsvLexer> lexer_;
  std::vector<std::string> header_;
  std::string header_place_;
  CsvFields fields_;
  std::vector<int64_t> first_rows_;
  int64_t row_ = -1;
  size_t read_ = 0;      // fields of the row that were read
  size_t expected_ = 0;  // 0 if it is not known yet
};

}  // namespace flow::data
