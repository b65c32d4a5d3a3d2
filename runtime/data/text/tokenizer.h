// Tokenizers: text to ids and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// The reason why a text has no ids, and the byte offset at which it occurs.
struct TextProblem {
  size_t offset = 0;
  std::string message;
  std::string hint = {};
};

/// A function that receives the ids of a text, block after block.
using IdConsumer = std::function<void(std::span<const int32_t>)>;

/// Converts text to ids. Several threads may use the same tokenizer.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Passes the ids of `text` to `consume`, in order and in blocks of bounded size. Returns the
  /// first problem of the text, after which nothing more is passed. All tokenizers except that of
  /// bytes require UTF-8.
  virtual std::optional<TextProblem> encode(std::string_view text,
                                            const IdConsumer& consume) const = 0;
  /// Returns the text of ids. An id that the tokenizer does not have becomes U+FFFD.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;
  /// Returns the number of ids: all ids are less than it.
  virtual int64_t size() const = 0;
  /// Returns a note about the parts of the tokenizer's file that are ignored, or an empty text.
  virtual std::string note() const { return {}; }

  /// Appends the ids of `text` to `ids`. Returns the first problem of the text.
  std::optional<TextProblem> encode(std::string_view text, std::vector<int64_t>& ids) const;
};

/// Returns the problem of a text that is not UTF-8.
std::optional<TextProblem> utf8_problem(std::string_view text);

/// Returns the tokenizer whose ids are the bytes of the text.
std::unique_ptr<Tokenizer> bytes_tokenizer();

/// Returns the tokenizer whose ids are the code points of the text.
std::unique_ptr<Tokenizer> code_points_tokenizer();

/// Maps the code points of a list to their positions.
class CharacterIds {
 public:
  /// `unknown` gives the id of other code points: kError (none), kExtra (the length of the list) or
  /// kCategory (the id of this character). Throws RequestError if a code point occurs twice in the
  /// list, or if the category is not in the list.
  CharacterIds(std::u32string characters, const plan::Replacement& unknown);

  /// Returns the id of a code point, or -1 if it is unknown and an error.
  int32_t id_of(char32_t code) const;
  int64_t size() const;
  const std::u32string& characters() const { return characters_; }

 private:
  std::u32string characters_;
  std::vector<int32_t> low_;                        // ids by code point below 65536
  std::vector<std::pair<char32_t, int32_t>> high_;  // the others, sorted
  int32_t unknown_ = -1;
};

/// Returns the problem of a code point that is not in the list of characters.
TextProblem unknown_character(char32_t code, size_t offset);

/// Returns the tokenizer whose ids are the positions of characters in a list. See CharacterIds.
std::unique_ptr<Tokenizer> characters_tokenizer(CharacterIds characters);

/// A text and the name of its file, which messages show.
struct NamedText {
  std::string name, text;
};

/// Returns the tokenizer of a vocabulary of GPT-2's byte-level byte pairs (`vocab.json` and
/// `merges.txt`). The texts of `special` become their ids in the vocabulary. Throws RunError if a
/// file is damaged, or if merges, vocabulary and special tokens do not fit together.
std::unique_ptr<Tokenizer> byte_pair_tokenizer(const NamedText& vocab, const NamedText& merges,
                                               std::span<const std::string> special);

/// Returns the tokenizer of a `tokenizer.json` of Hugging Face with byte-level byte pairs. Throws
/// RunError that names the part of the file that is not supported or damaged.
std::unique_ptr<Tokenizer> json_tokenizer(const NamedText& file);

/// The largest size of the file of a tokenizer, in bytes.
inline constexpr uint64_t kLargestTokenizerFile = uint64_t{256} << 20;

/// Returns the tokenizer of a job file, whose paths are relative to `root`. Characters that are
/// not listed are those of `learned`; without `learned`, the ids are code points. Throws RunError
/// if a file cannot be read or does not fit.
std::unique_ptr<Tokenizer> open_tokenizer(const plan::Tokenizer& tokenizer,
                                          const plan::Replacement& unknown,
                                          const std::optional<std::u32string>& learned,
                                          const fs::path& root);

}  // namespace flow::data
