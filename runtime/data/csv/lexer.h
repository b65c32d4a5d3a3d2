// The records and fields of one CSV file, read through a window that slides over the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/csv/byte_finder.h"
#include "runtime/data/csv/csv.h"
#include "runtime/data/csv/plain_number.h"
#include "runtime/data/files/unpack.h"

namespace flow::data {

struct CsvField {
  std::string_view text;  // valid until the next call of the lexer
  bool text_after_quote = false;
};

/// Reads records and their fields in order. All functions throw RunError, with a place, for the
/// fatal errors of CsvSource::read().
class CsvLexer {
 public:
  /// Opens a file and skips its byte order mark and the first lines that the dialect leaves out.
  CsvLexer(const fs::path& path, const CsvDialect& dialect);

  /// Moves to the next record, and returns false at the end of the file. REQUIRES: next_field() has
  /// returned false for the record before.
  bool next_record();
  /// Reads the next field of the record, and returns false if it has no more fields.
  bool next_field(CsvField& field);

  /// Reads the next field of the record if it is a number of the common form, without quotes and
  /// blanks. Otherwise, returns false and reads nothing. REQUIRES: no character of such a number is
  /// the delimiter or the quote.
  bool next_plain_number(char decimal, PlainNumber& number) {
    if (record_ended_ || end_ - at_ < kPlainNumberBytes || fields_ == kMostCsvFields) return false;
    const char* const end = plain_end_.find(at_, at_ + kPlainNumberBytes / 2);
    if (!is_plain_number(at_, end - (*end == '\n' && end[-1] == '\r'), decimal, number))
      return false;
    record_ended_ = *end == '\n';
    if (record_ended_) start_line(end + 1);
    at_ = end + 1;
    ++fields_;
    return true;
  }

  /// Returns the line where the record starts.
  int64_t line() const { return record_line_; }
  /// Returns the unpacked bytes that were read from the file.
  uint64_t bytes_read() const { return bytes_fetched_ - static_cast<uint64_t>(end_ - at_); }
  /// Returns "FILE:LINE:COLUMN" of the record, and of the field that was read last.
  std::string record_place() const { return place(record_line_, 1); }
  std::string field_place() const;

 private:
  /// A physical line. The characters before `start` may have left the window.
  struct Line {
    int64_t number = 1;
    const char* start = nullptr;
    int64_t characters_before = 0;
  };

  bool more();
  bool has(size_t bytes);
  void check_size() const;
  void skip_byte_order_mark();
  bool skip_line();
  bool skip_blank_line();
  void skip_blanks();
  bool take_line_end();
  void start_line(const char* start) {
    ++line_.number;
    line_.start = start;
    line_.characters_before = 0;
  }
  template <size_t kCount>
  void advance_to(const ByteFinder<kCount>& finder);
  void read_unquoted(CsvField& field);
  void read_quoted(CsvField& field);
  bool find_quote();
  void fetch_line_end();
  void end_field();
  bool ends_field(char c) const;
  bool is_blank(char c) const;
  int64_t characters(const char* begin, const char* end) const;
  int64_t column_of(const Line& line, const char* at) const;
  std::string place(int64_t line, int64_t column) const;
  [[noreturn]] void fail(const Line& line, const char* at, std::string_view message,
                         std::string hint) const;

  std::string name_;
  CsvDialect dialect_;
  ByteFinder<4> field_end_;
  ByteFinder<3> quoted_end_, line_end_;
  ByteFinder<2> plain_end_;
  std::unique_ptr<ByteStream> stream_;
  std::vector<char> window_;
  uint64_t bytes_fetched_ = 0;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  const char* field_ = nullptr;  // start of the field or line, which the window keeps
  Line line_, field_line_;
  int64_t record_line_ = 1;
  size_t fields_ = 0;  // fields of the record that were read
  bool record_ended_ = true;
  std::string joined_;  // a field that is not contiguous in the file
};

}  // namespace flow::data
