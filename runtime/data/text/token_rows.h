// Texts as rows of ids: the lines of text files, the fields of CSV files and members of tar files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/files/bad_row.h"
#include "runtime/data/text/id_array.h"
#include "runtime/data/text/tokenizer.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Rows of ids, which are cut to format.length. The ids `begin`, `end` and `pad` are added when a
/// row is read.
class TokenRows {
 public:
  /// Throws RequestError if `begin` and `end` need more than format.length ids.
  explicit TokenRows(const plan::TextFormat& format);

  /// Adds the row of a text. If the text has a problem, the row has no ids of its own.
  std::optional<TextProblem> add(const Tokenizer& tokenizer, std::string_view text);

  int64_t rows() const { return static_cast<int64_t>(starts_.size()) - 1; }
  /// Returns the number of ids of a row with `begin` and `end`, but without `pad`.
  int64_t length_of(int64_t row) const;
  /// Writes the ids of a row, padded to out.size(). REQUIRES: out.size() >= length_of(row).
  void read(int64_t row, std::span<int64_t> out) const;

  /// Returns the code points that occur in some rows, sorted. REQUIRES: the ids are code points.
  std::u32string characters_in(std::span<const int64_t> rows) const;
  /// Replaces code points by the ids of characters. Returns a problem of each row with an unknown
  /// character. Its offset is the index of the character among those that were not cut off.
  std::vector<std::pair<int64_t, TextProblem>> use_characters(const CharacterIds& characters);

 private:
  plan::TextFormat format_;
  IdArray ids_;
  std::vector<uint64_t> starts_ = {0};  // the first id of each row, and the number of ids
  std::vector<int32_t> scratch_;
};

/// The lines of text files. A line ends with LF, and a CR before LF is not part of it.
class TextLines {
 public:
  /// Reads all files, which may be packed. Throws RunError if a file cannot be read, or if there is
  /// no line. Texts that the tokenizer refuses are bad rows.
  TextLines(std::span<const fs::path> files, const Tokenizer& tokenizer,
            const plan::TextFormat& format);

  const TokenRows& rows() const { return rows_; }
  const std::vector<BadRow>& bad_rows() const { return bad_; }
  /// Returns the first row of each file.
  const std::vector<int64_t>& file_starts() const { return file_starts_; }
  /// Returns the place of a row: "poems.txt:12".
  std::string place(int64_t row) const;
  /// Replaces code points by the ids of characters. Returns the rows that have unknown characters.
  std::vector<BadRow> use_characters(const CharacterIds& characters);

 private:
  void add_lines(std::string_view text, const Tokenizer& tokenizer);

  std::vector<std::string> names_;
  bool cut_at_start_;
  TokenRows rows_;
  std::vector<int64_t> file_starts_;
  std::vector<BadRow> bad_;
};

/// The ids of text files as one stream.
class TokenStream {
 public:
  /// Reads all files, which may be packed. Throws RunError if a file cannot be read or has a text
  /// that the tokenizer refuses (with line and column), or if there are no ids. Throws RequestError
  /// if `begin` or `end` is not in [0, 2^31).
  TokenStream(std::span<const fs::path> files, const Tokenizer& tokenizer,
              const plan::TextFormat& format);

  const IdArray& ids() const { return ids_; }
  /// Returns the position of the first id of each file.
  const std::vector<int64_t>& file_starts() const { return file_starts_; }
  /// Returns the place of an id: "id 12 of book.txt", counted from 0.
  std::string place(int64_t position) const;

  /// Returns the code points at some positions, sorted. REQUIRES: the ids are code points.
  std::u32string characters_in(std::span<const int64_t> positions) const;
  /// Replaces code points by the ids of characters. Throws RunError with the place of the first
  /// unknown character.
  void use_characters(const CharacterIds& characters);

 private:
  void add_mark(const std::optional<int64_t>& id);

  std::vector<std::string> names_;
  IdArray ids_;
  std::vector<int64_t> file_starts_;
  std::vector<int64_t> marks_;  // the positions of `begin` and `end`
};

/// Returns characters as the texts of categories, one each.
std::vector<std::string> categories_of(std::u32string_view characters);

/// Returns the characters of such texts. Throws RequestError if a text is not one character.
std::u32string characters_of(std::span<const std::string> categories);

}  // namespace flow::data
