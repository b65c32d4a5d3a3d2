// Keeps the fields of whole records.
#include "runtime/data/csv/records.h"

#include <fmt/format.h>

#include "runtime/base/text.h"
#include "runtime/data/csv/cells.h"

namespace flow::data {

std::vector<std::string> record_texts(CsvLexer& lexer, const CsvDialect& dialect) {
  std::vector<std::string> texts;
  size_t size = 0;
  for (CsvField field; lexer.next_field(field);) {
    size += field.text.size();
    if (size > kLargestCsvRecord)
      throw RunError(fmt::format("{}: a record has more than {}", lexer.record_place(),
                                 human_bytes(kLargestCsvRecord)),
                     "check `delimiter`, `quote` and the line ends");
    texts.push_back(dialect.latin1 ? utf8_of_latin1(field.text) : std::string(field.text));
  }
  return texts;
}

namespace {

const CsvDialect& checked(const CsvDialect& dialect) {
  check_dialect(dialect);
  return dialect;
}

}  // namespace

CsvRecords::CsvRecords(const fs::path& path, const CsvDialect& dialect)
    : dialect_(checked(dialect)), lexer_(path, dialect_) {}

bool CsvRecords::next(std::vector<std::string_view>& fields) {
  if (!lexer_.next_record()) return false;
  texts_ = record_texts(lexer_, dialect_);
  fields.assign(texts_.begin(), texts_.end());
  return true;
}

}  // namespace flow::data
