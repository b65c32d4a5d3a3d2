// Opens the files of a CSV source in order, and checks their headers.
#include "runtime/data/csv/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/data/csv/records.h"

namespace flow::data {

CsvRows::CsvRows(const CsvSource& source) : source_(source) {
  if (!source.dialect().header) fields_ = fields_by_index(source.requests());
}

bool CsvRows::next() {
  while (!lexer_ || !lexer_->next_record()) {
    if (first_rows_.size() == source_.files().size()) return false;
    open(source_.files()[first_rows_.size()]);
  }
  ++row_;
  read_ = 0;
  return true;
}

bool CsvRows::next_field(CsvField& field) {
  if (lexer_->next_field(field)) [[likely]] {
    ++read_;
    return true;
  }
  if (expected_ == 0) end_row();
  return false;
}

void CsvRows::skip() {
  for (CsvField field; next_field(field);) {
  }
}

/// Ends the first row of files without a header.
void CsvRows::end_row() {
  expected_ = read_;
  if (fields_.targets.size() > expected_)
    throw RunError(
        fmt::format("{}: column {} does not exist: the first record has {}", lexer_->record_place(),
                    fields_.targets.size() - 1, counted(expected_, "field")),
        "check the index, which starts at 0, and `delimiter`");
}

void CsvRows::open(const fs::path& path) {
  lexer_ = std::make_unique<CsvLexer>(path, source_.dialect());
  first_rows_.push_back(row_ + 1);
  if (source_.dialect().header) read_header(path);
}

void CsvRows::read_header(const fs::path& path) {
  if (!lexer_->next_record())
    throw RunError(fmt::format("{} has no header", path.string()),
                   "check the file, and `skip` and `comment`");
  std::vector<std::string> names = record_texts(*lexer_, source_.dialect());
  std::string place = lexer_->record_place();
  if (first_rows_.size() == 1) {
    header_ = std::move(names);
    header_place_ = std::move(place);
    expected_ = header_.size();
    fields_ = fields_by_name(header_, source_.requests(), header_place_);
  } else if (names != header_) {
    const auto differs = std::ranges::mismatch(names, header_).in1 - names.begin();
    const auto name = [&](const std::vector<std::string>& of) {
      const auto i = static_cast<size_t>(differs);
      return i < of.size() ? fmt::format("\"{}\"", shortened(of[i])) : "no column";
    };
    throw RunError(fmt::format("{}: the header differs from the one at {}: column {} is {}, "
                               "expected {}",
                               place, header_place_, differs + 1, name(names), name(header_)),
                   "give all files the same columns in the same order");
  }
}

std::string CsvRows::name_of(size_t field) const {
  return field < header_.size() ? header_[field] : fmt::format("{}", field);
}

}  // namespace flow::data
