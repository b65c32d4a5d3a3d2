// Cuts, pads and stores the ids of texts.
#include "runtime/data/text/token_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/data/files/unpack.h"
#include "runtime/data/text/utf8.h"

namespace flow::data {

namespace {

using Truncate = plan::TextFormat::Truncate;

int64_t marks_of(const plan::TextFormat& format) {
  return format.begin.has_value() + format.end.has_value();
}

/// A set of code points.
class CodePointSet {
 public:
  void add(int32_t code) { contains_[static_cast<size_t>(code)] = true; }
  std::u32string sorted() const {
    std::u32string codes;
    for (size_t code = 0; code < contains_.size(); ++code)
      if (contains_[code]) codes += static_cast<char32_t>(code);
    return codes;
  }

 private:
  std::vector<bool> contains_ = std::vector<bool>(0x110000);
};

/// Returns the array with id_of(id, position) for each id.
template <typename IdOf>
IdArray mapped(const IdArray& ids, IdOf id_of) {
  constexpr size_t kBlock = 16384;
  IdArray result;
  std::vector<int32_t> block;
  for (size_t first = 0; first < ids.size(); first += block.size()) {
    block.resize(std::min(kBlock, ids.size() - first));
    for (size_t i = 0; i < block.size(); ++i) block[i] = id_of(ids[first + i], first + i);
    result.append(block);
  }
  return result;
}

std::string read_file(const fs::path& path) {
  const auto stream = open_stream(path);
  return read_all(*stream, available_memory(), path.string());
}

std::vector<std::string> names_of(std::span<const fs::path> files) {
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.string());
  return names;
}

/// Returns the index of the file that has a row.
size_t file_of(const std::vector<int64_t>& starts, int64_t row) {
  return static_cast<size_t>(std::ranges::upper_bound(starts, row) - starts.begin()) - 1;
}

}  // namespace

TokenRows::TokenRows(const plan::TextFormat& format) : format_(format) {
  if (format.length > 0 && format.length < marks_of(format))
    throw RequestError(
        fmt::format("`length: {}` is too short for `begin` and `end`", format.length),
        "increase `length`");
}

std::optional<TextProblem> TokenRows::add(const Tokenizer& tokenizer, std::string_view text) {
  scratch_.clear();
  auto problem = tokenizer.encode(text, [&](std::span<const int32_t> block) {
    scratch_.insert(scratch_.end(), block.begin(), block.end());
  });
  std::span<const int32_t> ids = scratch_;
  const auto space = static_cast<size_t>(format_.length - marks_of(format_));
  const bool cuts = format_.length > 0 && ids.size() > space;
  if (cuts && !problem && format_.truncate == Truncate::kError)
    problem = TextProblem{.message = fmt::format(
                              "too many ids: found {}, expected at most {}",
                              static_cast<int64_t>(ids.size()) + marks_of(format_), format_.length),
                          .hint = "increase `length`, or cut rows with `truncate: end`"};
  if (cuts) ids = format_.truncate == Truncate::kStart ? ids.last(space) : ids.first(space);
  if (!problem) ids_.append(ids);
  starts_.push_back(ids_.size());
  return problem;
}

int64_t TokenRows::length_of(int64_t row) const {
  const auto i = static_cast<size_t>(row);
  return static_cast<int64_t>(starts_[i + 1] - starts_[i]) + marks_of(format_);
}

void TokenRows::read(int64_t row, std::span<int64_t> out) const {
  const auto length = static_cast<size_t>(length_of(row));
  const bool left = format_.pad_side == plan::TextFormat::Side::kLeft;
  std::ranges::fill(left ? out.first(out.size() - length) : out.subspan(length), format_.pad);
  std::span<int64_t> ids = left ? out.last(length) : out.first(length);
  if (format_.begin) {
    ids.front() = *format_.begin;
    ids = ids.subspan(1);
  }
  if (format_.end) {
    ids.back() = *format_.end;
    ids = ids.first(ids.size() - 1);
  }
  ids_.copy(starts_[static_cast<size_t>(row)], ids);
}

std::u32string TokenRows::characters_in(std::span<const int64_t> rows) const {
  CodePointSet codes;
  for (const int64_t row : rows) {
    const auto i = static_cast<size_t>(row);
    for (uint64_t at = starts_[i]; at < starts_[i + 1]; ++at) codes.add(ids_[at]);
  }
  return codes.sorted();
}

std::vector<std::pair<int64_t, TextProblem>> TokenRows::use_characters(
    const CharacterIds& characters) {
  std::vector<std::pair<int64_t, TextProblem>> problems;
  const auto report = [&](char32_t code, size_t at) {
    const auto next = std::ranges::upper_bound(starts_, at);
    const int64_t row = next - starts_.begin() - 1;
    if (problems.empty() || problems.back().first != row)
      problems.emplace_back(row, unknown_character(code, at - *(next - 1)));
  };
  ids_ = mapped(ids_, [&](int32_t id, size_t at) {
    const auto code = static_cast<char32_t>(id);
    const int32_t mapped_id = characters.id_of(code);
    if (mapped_id < 0) report(code, at);
    return std::max(mapped_id, 0);
  });
  return problems;
}

TextLines::TextLines(std::span<const fs::path> files, const Tokenizer& tokenizer,
                     const plan::TextFormat& format)
    : names_(names_of(files)), cut_at_start_(format.truncate == Truncate::kStart), rows_(format) {
  for (const fs::path& file : files) {
    file_starts_.push_back(rows_.rows());
    const std::string text = read_file(file);
    add_lines(without_byte_order_mark(text), tokenizer);
  }
  if (rows_.rows() == 0)
    throw RunError(fmt::format("{}: the text has no lines", join(names_, ", ")));
}

void TextLines::add_lines(std::string_view text, const Tokenizer& tokenizer) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto problem = rows_.add(tokenizer, line);
    if (!problem) continue;
    const int64_t row = rows_.rows() - 1;
    const size_t column = count_code_points(line.substr(0, problem->offset)) + 1;
    bad_.push_back({.row = row,
                    .place = fmt::format("{}:{}", place(row), column),
                    .message = problem->message,
                    .hint = problem->hint});
  }
}

std::string TextLines::place(int64_t row) const {
  const size_t file = file_of(file_starts_, row);
  return fmt::format("{}:{}", names_[file], row - file_starts_[file] + 1);
}

std::vector<BadRow> TextLines::use_characters(const CharacterIds& characters) {
  std::vector<BadRow> bad;
  for (auto& [row, problem] : rows_.use_characters(characters)) {
    const std::string column = cut_at_start_ ? "" : fmt::format(":{}", problem.offset + 1);
    bad.push_back({.row = row,
                   .place = place(row) + column,
                   .message = std::move(problem.message),
                   .hint = std::move(problem.hint)});
  }
  return bad;
}

TokenStream::TokenStream(std::span<const fs::path> files, const Tokenizer& tokenizer,
                         const plan::TextFormat& format)
    : names_(names_of(files)) {
  for (const fs::path& file : files) {
    file_starts_.push_back(static_cast<int64_t>(ids_.size()));
    const std::string whole = read_file(file);
    const std::string_view text = without_byte_order_mark(whole);
    add_mark(format.begin);
    const auto problem =
        tokenizer.encode(text, [this](std::span<const int32_t> block) { ids_.append(block); });
    if (problem) {
      const std::string_view before = text.substr(0, problem->offset);
      const size_t line = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
      throw RunError(
          fmt::format("{}:{}:{}: {}", file.string(), std::ranges::count(before, '\n') + 1,
                      count_code_points(before.substr(line)) + 1, problem->message),
          problem->hint);
    }
    add_mark(format.end);
  }
  if (ids_.size() == 0) throw RunError(fmt::format("{}: the text is empty", join(names_, ", ")));
}

void TokenStream::add_mark(const std::optional<int64_t>& id) {
  if (!id) return;
  if (*id < 0 || *id > INT32_MAX)
    throw RequestError(fmt::format(
        "`begin` and `end` of a stream: expected an id from 0 to {}, found {}", INT32_MAX, *id));
  marks_.push_back(static_cast<int64_t>(ids_.size()));
  ids_.append(std::array{static_cast<int32_t>(*id)});
}

std::string TokenStream::place(int64_t position) const {
  const size_t file = file_of(file_starts_, position);
  return fmt::format("id {} of {}", position - file_starts_[file], names_[file]);
}

std::u32string TokenStream::characters_in(std::span<const int64_t> positions) const {
  CodePointSet codes;
  for (const int64_t position : positions)
    if (!std::ranges::binary_search(marks_, position))
      codes.add(ids_[static_cast<size_t>(position)]);
  return codes.sorted();
}

void TokenStream::use_characters(const CharacterIds& characters) {
  ids_ = mapped(ids_, [&](int32_t id, size_t at) {
    const auto position = static_cast<int64_t>(at);
    if (std::ranges::binary_search(marks_, position)) return id;
    const auto code = static_cast<char32_t>(id);
    const int32_t mapped_id = characters.id_of(code);
    if (mapped_id >= 0) return mapped_id;
    const TextProblem problem = unknown_character(code, 0);
    throw RunError(fmt::format("{}: {}", place(position), problem.message), problem.hint);
  });
}

std::vector<std::string> categories_of(std::u32string_view characters) {
  std::vector<std::string> categories;
  for (const char32_t code : characters) append_utf8(code, categories.emplace_back());
  return categories;
}

std::u32string characters_of(std::span<const std::string> categories) {
  std::u32string characters;
  for (const std::string& category : categories) {
    const bool valid = !find_invalid_utf8(category);
    const std::u32string codes = valid ? code_points_of(category) : U"";
    if (codes.size() != 1)
      throw RequestError(
          fmt::format("`{}` is not one character", valid ? shortened(category) : "invalid UTF-8"));
    characters += codes;
  }
  return characters;
}

}  // namespace flow::data
