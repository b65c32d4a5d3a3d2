// Divides a CSV file into records and fields (RFC 4180).
#include "runtime/data/csv/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/text.h"

namespace flow::data {

namespace {

constexpr size_t kSmallestWindow = size_t{1} << 16;

/// Returns the comment start as bytes of the file's encoding.
std::string encoded(const std::string& text, bool latin1) {
  if (!latin1) return text;
  std::string bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool pair = (byte == 0xC2 || byte == 0xC3) && at + 1 < text.size();
    bytes += pair ? static_cast<char>((byte & 3) << 6 | (text[++at] & 0x3F)) : text[at];
  }
  return bytes;
}

}  // namespace

CsvLexer::CsvLexer(const fs::path& path, const CsvDialect& dialect)
    : name_(path.string()),
      dialect_(dialect),
      field_end_({dialect.delimiter, '\n', '\r', '\0'}),
      quoted_end_({dialect.quote.value_or('\0'), '\n', '\0'}),
      line_end_({'\n', '\r', '\0'}),
      plain_end_({dialect.delimiter, '\n'}),
      stream_(open_stream(path)),
      window_(kPlainNumberBytes + kSmallestWindow) {
  dialect_.comment = encoded(dialect.comment, dialect.latin1);
  at_ = end_ = field_ = line_.start = field_line_.start = window_.data() + kPlainNumberBytes;
  skip_byte_order_mark();
  for (int64_t skipped = 0; skipped < dialect.skip && skip_line(); ++skipped) {
  }
}

/// Appends bytes to the window and keeps those from the start of the field on. Bytes before them
/// can be read, too. Returns false at the end of the file.
bool CsvLexer::more() {
  for (Line* line : {&line_, &field_line_}) {
    if (line->start >= field_) continue;
    line->characters_before += characters(line->start, field_);
    line->start = field_;
  }
  const char* const before = field_;
  const auto kept = static_cast<size_t>(end_ - field_);
  std::vector<char> larger;
  if (kept > window_.size() / 2) larger.resize(window_.size() * 2);
  std::vector<char>& target = larger.empty() ? window_ : larger;
  char* const start = target.data() + kPlainNumberBytes;
  std::memmove(start, field_, kept);
  const std::span<char> free(start + kept, target.data() + target.size());
  const size_t size = stream_->read(std::as_writable_bytes(free));
  bytes_fetched_ += size;
  const auto moved = [&](const char* address) { return start + (address - before); };
  at_ = moved(at_);
  line_.start = moved(line_.start);
  field_line_.start = moved(field_line_.start);
  field_ = start;
  end_ = start + kept + size;
  if (!larger.empty()) window_.swap(larger);
  return size > 0;
}

/// Returns true if the window has this many bytes from `at_` on, after it is filled.
bool CsvLexer::has(size_t bytes) {
  while (static_cast<size_t>(end_ - at_) < bytes)
    if (!more()) return false;
  return true;
}

/// Moves `at_` to the first byte that the finder searches for, or to the end of the file.
template <size_t kCount>
void CsvLexer::advance_to(const ByteFinder<kCount>& finder) {
  at_ = finder.find(at_, end_);
  while (at_ == end_) [[unlikely]] {
      check_size();
      if (!more()) break;
      at_ = finder.find(at_, end_);
    }
  check_size();
}

/// Throws if the field up to `at_` is too large. Its opening quote does not count.
void CsvLexer::check_size() const {
  const auto size = static_cast<size_t>(at_ - field_);
  if (size <= kLargestCsvField) [[likely]]
    return;
  const bool quoted = dialect_.quote && *field_ == *dialect_.quote;
  if (size <= kLargestCsvField + (quoted ? 1 : 0)) return;
  fail(field_line_, field_, fmt::format("a field has more than {}", human_bytes(kLargestCsvField)),
       quoted ? "close its quote, or set `quote: none` if quotes are data"
              : "set `delimiter` to the character between fields");
}

void CsvLexer::skip_byte_order_mark() {
  constexpr std::string_view kUtf8 = "\xEF\xBB\xBF";
  constexpr std::array<std::string_view, 2> kUtf16 = {"\xFF\xFE", "\xFE\xFF"};
  constexpr std::string_view kUtf32("\0\0\xFE\xFF", 4);
  has(kUtf32.size());
  const std::string_view start(at_, static_cast<size_t>(end_ - at_));
  const auto begins = [&](std::string_view mark) { return start.starts_with(mark); };
  if (begins(kUtf32) || std::ranges::any_of(kUtf16, begins))
    fail(line_, at_, "the file is encoded in UTF-16 or UTF-32; expected UTF-8",
         "convert it with `iconv -t UTF-8`");
  if (begins(kUtf8)) line_.start = field_ = at_ += kUtf8.size();
}

/// Skips the end of a line if it comes next. Throws for a NUL and a lone carriage return.
/// REQUIRES: at_ != end_.
bool CsvLexer::take_line_end() {
  if (*at_ == '\n') {
    start_line(++at_);
    return true;
  }
  if (*at_ == '\0') fail(line_, at_, "the file contains NUL; expected text", "");
  if (*at_ != '\r') return false;
  if (!has(2) || at_[1] != '\n')
    fail(line_, at_, "a carriage return without a line feed; expected LF or CRLF line ends",
         "convert the line ends, or quote fields that contain them");
  start_line(at_ += 2);
  return true;
}

/// Skips a physical line, and returns false if the file ends before one.
bool CsvLexer::skip_line() {
  field_ = at_;
  if (!has(1)) return false;
  while (true) {
    at_ = line_end_.find(at_, end_);
    if (at_ != end_) return take_line_end();
    field_ = at_;
    if (!more()) return true;
  }
}

void CsvLexer::skip_blanks() {
  while (true) {
    while (at_ != end_ && is_blank(*at_)) ++at_;
    check_size();
    if (at_ != end_ || !more()) return;
  }
}

/// Skips an empty line, which consists of blanks if fields are trimmed.
bool CsvLexer::skip_blank_line() {
  if (dialect_.trim) skip_blanks();
  if (at_ == end_ || take_line_end()) return true;
  at_ = field_;
  return false;
}

bool CsvLexer::next_record() {
  while (true) {
    field_ = at_;
    field_line_ = line_;
    if (!has(1)) return false;
    const std::string& comment = dialect_.comment;
    if (!comment.empty() && has(comment.size()) &&
        std::string_view(at_, comment.size()) == comment) {
      skip_line();
    } else if (!skip_blank_line()) {
      break;
    }
  }
  record_line_ = line_.number;
  record_ended_ = false;
  fields_ = 0;
  return true;
}

bool CsvLexer::next_field(CsvField& field) {
  if (record_ended_) return false;
  field_ = at_;
  field_line_ = line_;
  if (dialect_.trim) {
    skip_blanks();
    field_ = at_;
  }
  if (++fields_ > kMostCsvFields)
    fail(line_, at_, fmt::format("a record has more than {} fields", kMostCsvFields),
         "set `delimiter` to the character between fields");
  field.text_after_quote = false;
  if (dialect_.quote && has(1) && *at_ == *dialect_.quote)
    read_quoted(field);
  else
    read_unquoted(field);
  end_field();
  return true;
}

/// Makes room in the window for a line end of two bytes, because end_field() must not move the text
/// of the field.
void CsvLexer::fetch_line_end() {
  if (at_ != end_ && *at_ == '\r') has(2);
}

void CsvLexer::read_unquoted(CsvField& field) {
  advance_to(field_end_);
  fetch_line_end();
  field.text = {field_, at_};
  if (!dialect_.trim) return;
  while (!field.text.empty() && is_blank(field.text.back())) field.text.remove_suffix(1);
}

/// Reads a field that starts with a quote. It is copied to `joined_` if it has doubled quotes, or
/// if text follows its closing quote.
void CsvLexer::read_quoted(CsvField& field) {
  joined_.clear();
  size_t piece = 1;  // offset of the first byte that is not copied
  ++at_;
  while (find_quote()) {
    ++at_;
    joined_.append(field_ + piece, at_);
    piece = static_cast<size_t>(++at_ - field_);
  }
  const auto close = static_cast<size_t>(at_ - field_);
  ++at_;
  if (dialect_.trim) skip_blanks();
  field.text_after_quote = has(1) && !ends_field(*at_);
  if (field.text_after_quote) {
    joined_.append(field_ + piece, close - piece);
    const auto tail = static_cast<size_t>(at_ - field_);
    advance_to(field_end_);
    joined_.append(field_ + tail, at_);
  } else if (piece > 1) {
    joined_.append(field_ + piece, close - piece);
  }
  fetch_line_end();
  const bool joined = field.text_after_quote || piece > 1;
  field.text = joined ? std::string_view(joined_) : std::string_view(field_ + piece, close - piece);
}

/// Moves `at_` to the next quote, and returns true if it is doubled.
bool CsvLexer::find_quote() {
  while (true) {
    advance_to(quoted_end_);
    if (at_ == end_)
      fail(field_line_, field_, "a quote is not closed",
           "close it, or set `quote: none` if quotes are data");
    if (*at_ == '\0') fail(line_, at_, "the file contains NUL; expected text", "");
    if (*at_ == *dialect_.quote) break;
    start_line(++at_);
  }
  return has(2) && at_[1] == *dialect_.quote;
}

bool CsvLexer::ends_field(char c) const {
  return c == dialect_.delimiter || c == '\n' || c == '\r' || c == '\0';
}

bool CsvLexer::is_blank(char c) const { return (c == ' ' || c == '\t') && c != dialect_.delimiter; }

void CsvLexer::end_field() {
  if (at_ != end_ && *at_ == dialect_.delimiter)
    ++at_;
  else
    record_ended_ = at_ == end_ || take_line_end();
}

int64_t CsvLexer::characters(const char* begin, const char* end) const {
  const auto starts = [&](char c) { return dialect_.latin1 || (c & 0xC0) != 0x80; };
  return std::count_if(begin, end, starts);
}

int64_t CsvLexer::column_of(const Line& line, const char* at) const {
  return line.characters_before + characters(line.start, at) + 1;
}

std::string CsvLexer::place(int64_t line, int64_t column) const {
  return fmt::format("{}:{}:{}", name_, line, column);
}

std::string CsvLexer::field_place() const {
  return place(record_line_, column_of(field_line_, field_));
}

void CsvLexer::fail(const Line& line, const char* at, std::string_view message,
                    std::string hint) const {
  throw RunError(fmt::format("{}: {}", place(line.number, column_of(line, at)), message),
                 std::move(hint));
}

}  // namespace flow::data
