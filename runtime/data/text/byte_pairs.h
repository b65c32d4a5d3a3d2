// Byte-level byte pair encoding (Sennrich et al., 2016; Radford et al., 2019).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/text/pattern.h"
#include "runtime/data/text/tokenizer.h"

namespace flow::data {

/// The symbols of a vocabulary and their ids, which are different and in [0, 2^31 - 1).
using Vocabulary = std::vector<std::pair<std::string, int32_t>>;

/// Two symbols that are joined. The first of a list of merges is applied first.
struct Merge {
  std::string left, right;
  size_t place = 0;  // the line in merges.txt, or the number in a list, from 1
};

/// A text that becomes one id.
struct SpecialToken {
  std::string text;
  int32_t id = 0;
  bool normalized = false;  // true if it is found in the normalized text
};

/// The parts of a tokenizer of byte pairs.
struct BytePairs {
  std::string vocab_name;   // of the vocabulary in messages: "vocab.json"
  std::string merges_name;  // of a merge in messages, before its place: "merges.txt:"
  Vocabulary vocabulary;
  std::vector<Merge> merges;
  std::vector<SpecialToken> special;
  std::vector<Pattern> patterns;  // each cuts the pieces of the one before; none: one piece
  bool ignore_merges = false;     // a piece that is in the vocabulary is not merged
  bool normalize = false;         // to NFC
  std::string note;
};

/// The tables by which the bytes of a piece become ids.
class MergeTable {
 public:
  /// Throws RunError if a symbol of a merge, or what it joins to, is not in the vocabulary.
  explicit MergeTable(const BytePairs& parts);

  /// Returns the id of a byte, or -1 if the vocabulary does not have it.
  int32_t id_of_byte(unsigned char byte) const { return byte_ids_[byte]; }

  /// Replaces the ids of bytes by the ids of their merged symbols: while adjacent ids form a merge,
  /// the first merge of the list joins all its occurrences from left to right.
  void merge(std::vector<int32_t>& ids) const;

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Joined {
    uint32_t rank = kNoRank;  // position in the list of merges
    int32_t id = 0;
  };
  struct Entry {
    uint64_t pair = UINT64_MAX;
    Joined joined;
  };

  size_t slot_of(uint64_t pair) const;
  void insert(int32_t left, int32_t right, Joined joined);
  Joined find(int32_t left, int32_t right) const;
  void merge_short(std::vector<int32_t>& ids) const;
  void merge_long(std::vector<int32_t>& ids) const;

  std::vector<int32_t> byte_ids_;
  std::vector<Entry> entries_;  // open addressing; the size is a power of two
  int shift_ = 0;               // of the hash
};

/// Returns the bytes of a symbol in GPT-2's alphabet, in which each byte is a printable character,
/// or nothing if a character is not of this alphabet.
std::optional<std::string> bytes_of_symbol(std::string_view symbol);

/// Returns the symbol of a byte in GPT-2's alphabet.
std::string symbol_of_byte(unsigned char byte);

/// Parses the text of `vocab.json`: an object with the id of each symbol. Throws RunError.
Vocabulary parse_vocabulary(const NamedText& file);

/// Parses the text of `merges.txt`: two symbols and one space in each line. Throws RunError.
std::vector<Merge> parse_merges(const NamedText& file);

/// Returns the tokenizer. Throws RunError if the parts do not fit together.
std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(BytePairs parts);

}  // namespace flow::data
