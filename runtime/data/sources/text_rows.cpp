// Reads rows of token ids.
#include "runtime/data/sources/text_rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace flow::data {
namespace {

bool learns_characters(const plan::Tokenizer& tokenizer) {
  return tokenizer.kind == plan::Tokenizer::Kind::kCharacters && tokenizer.characters.empty();
}

std::unique_ptr<Tokenizer> tokenizer_of(const plan::Column& column, const fs::path& root) {
  return open_tokenizer(column.text->tokenizer, column.cell->unknown, {}, root);
}

CharacterIds learned_characters(const LearnedColumn& learned, const plan::Replacement& unknown) {
  return {characters_of(learned.categories.value()), unknown};
}

/// The rows of TokenRows: their ids, or the number of ids of each row.
class TokenSource : public SourceRows {
 public:
  explicit TokenSource(const plan::Column& column)
      : format_(*column.text), unknown_(column.cell->unknown) {}

  int64_t rows() const override { return tokens().rows(); }
  StoredElement element() const override { return {DType::kInt64}; }
  int64_t row_elements() const override { return takes_ids() ? format_.length : 1; }
  std::span<const std::byte> read(int64_t row, const RowDraws&, Scratch& scratch) const override {
    if (takes_ids()) {
      scratch.ids.resize(static_cast<size_t>(format_.length));
      tokens().read(row, scratch.ids);
    } else {
      scratch.ids.assign(1, tokens().length_of(row));
    }
    return std::as_bytes(std::span(scratch.ids));
  }
  void learn(std::span<const int64_t> rows, LearnedColumn& learned) const override {
    learned.categories = categories_of(tokens().characters_in(rows));
  }

 protected:
  virtual const TokenRows& tokens() const = 0;
  bool takes_ids() const { return format_.take == plan::TextFormat::Take::kIds; }
  const plan::Replacement& unknown() const { return unknown_; }
  bool learns() const { return learns_characters(format_.tokenizer); }

 private:
  plan::TextFormat format_;
  plan::Replacement unknown_;
};

class TextCells : public TokenSource {
 public:
  TextCells(const plan::Column& column, const fs::path& root, const VisitTexts& visit,
            CellPlace place, std::vector<int64_t> bad_rows,
            std::function<RunError(int64_t)> bad_row, std::vector<int64_t> file_starts)
      : TokenSource(column),
        tokens_(*column.text),
        place_(std::move(place)),
        bad_rows_(std::move(bad_rows)),
        bad_row_(std::move(bad_row)),
        file_starts_(std::move(file_starts)) {
    const auto tokenizer = tokenizer_of(column, root);
    visit([&](std::string_view text) { note(tokens_.rows(), tokens_.add(*tokenizer, text)); });
  }

  std::string row_text(int64_t row) const override { return place_(row); }
  std::vector<int64_t> file_starts() const override { return file_starts_; }
  std::vector<int64_t> bad_rows() const override {
    std::vector<int64_t> own;
    for (const auto& [row, problem] : problems_) own.push_back(row);
    std::vector<int64_t> all;
    std::ranges::set_union(bad_rows_, own, std::back_inserter(all));
    return all;
  }
  RunError bad_row(int64_t row) const override {
    if (std::ranges::binary_search(bad_rows_, row)) return bad_row_(row);
    const TextProblem& problem = problems_.at(row);
    return RunError(place_(row) + ": " + problem.message, problem.hint);
  }
  std::vector<int64_t> apply(const LearnedColumn& learned) override {
    if (!learns()) return {};
    std::vector<int64_t> bad;
    const CharacterIds characters = learned_characters(learned, unknown());
    for (auto& [row, problem] : tokens_.use_characters(characters)) {
      bad.push_back(row);
      note(row, std::move(problem));
    }
    return bad;
  }

 private:
  const TokenRows& tokens() const override { return tokens_; }
  void note(int64_t row, std::optional<TextProblem> problem) {
    if (problem) problems_.emplace(row, *std::move(problem));
  }

  TokenRows tokens_;
  CellPlace place_;
  std::vector<int64_t> bad_rows_;
  std::function<RunError(int64_t)> bad_row_;
  std::vector<int64_t> file_starts_;
  std::map<int64_t, TextProblem> problems_;
};

class LineRows : public TokenSource {
 public:
  LineRows(const plan::Column& column, const fs::path& root, const std::vector<fs::path>& files)
      : TokenSource(column), lines_(files, *tokenizer_of(column, root), *column.text) {
    for (const BadRow& bad : lines_.bad_rows()) bad_.emplace(bad.row, bad);
  }

  std::string row_text(int64_t row) const override { return lines_.place(row); }
  std::vector<int64_t> file_starts() const override { return lines_.file_starts(); }
  std::vector<int64_t> bad_rows() const override {
    std::vector<int64_t> rows;
    for (const auto& [row, bad] : bad_) rows.push_back(row);
    return rows;
  }
  RunError bad_row(int64_t row) const override {
    const BadRow& bad = bad_.at(row);
    return RunError(bad.place + ": " + bad.message, bad.hint);
  }
  std::vector<int64_t> apply(const LearnedColumn& learned) override {
    if (!learns()) return {};
    std::vector<int64_t> rows;
    for (BadRow& bad : lines_.use_characters(learned_characters(learned, unknown()))) {
      rows.push_back(bad.row);
      bad_.emplace(bad.row, std::move(bad));
    }
    return rows;
  }

 private:
  const TokenRows& tokens() const override { return lines_.rows(); }

  TextLines lines_;
  std::map<int64_t, BadRow> bad_;
};

class StreamRows : public SourceRows {
 public:
  StreamRows(const plan::Column& column, const fs::path& root, const std::vector<fs::path>& files)
      : unknown_(column.cell->unknown),
        learns_(learns_characters(column.text->tokenizer)),
        stream_(files, *tokenizer_of(column, root), *column.text) {}

  int64_t rows() const override { return static_cast<int64_t>(stream_.ids().size()); }
  StoredElement element() const override {
    switch (stream_.ids().element_bytes()) {
      case 1:
        return {DType::kUInt8};
      case 2:
        return {DType::kInt32, io::Narrow::kUInt16};
      default:
        return {DType::kInt32};
    }
  }
  int64_t row_elements() const override { return 1; }
  std::string row_text(int64_t row) const override { return stream_.place(row); }
  std::vector<int64_t> file_starts() const override { return stream_.file_starts(); }
  std::span<const std::byte> in_place(int64_t row, int64_t count) const override {
    const size_t bytes = stream_.ids().element_bytes();
    return stream_.ids().bytes().subspan(static_cast<size_t>(row) * bytes,
                                         static_cast<size_t>(count) * bytes);
  }
  std::span<const std::byte> read(int64_t row, const RowDraws&, Scratch&) const override {
    return in_place(row, 1);
  }
  void learn(std::span<const int64_t> rows, LearnedColumn& learned) const override {
    learned.categories = categories_of(stream_.characters_in(rows));
  }
  std::vector<int64_t> apply(const LearnedColumn& learned) override {
    if (learns_) stream_.use_characters(learned_characters(learned, unknown_));
    return {};
  }

 private:
  plan::Replacement unknown_;
  bool learns_;
  TokenStream stream_;
};

}  // namespace

std::unique_ptr<SourceRows> open_text_cells(const plan::Column& column, const fs::path& root,
                                            const VisitTexts& visit, CellPlace place,
                                            std::vector<int64_t> bad_rows,
                                            std::function<RunError(int64_t)> bad_row,
                                            std::vector<int64_t> file_starts) {
  return std::make_unique<TextCells>(column, root, visit, std::move(place), std::move(bad_rows),
                                     std::move(bad_row), std::move(file_starts));
}

std::unique_ptr<SourceRows> open_text_lines(const plan::Column& column, const fs::path& root,
                                            const std::vector<fs::path>& files) {
  return std::make_unique<LineRows>(column, root, files);
}

std::unique_ptr<SourceRows> open_text_stream(const plan::Column& column, const fs::path& root,
                                             const std::vector<fs::path>& files) {
  return std::make_unique<StreamRows>(column, root, files);
}

}  // namespace flow::data
