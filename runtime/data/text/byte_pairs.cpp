// The tokenizer of byte pairs: cuts a text at special tokens and by patterns, and merges each
// piece, unless its ids are known from an earlier one.
#include "runtime/data/text/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/data/text/piece_cache.h"
#include "runtime/data/text/special_tokens.h"
#include "runtime/data/text/utf8.h"

namespace flow::data {

namespace {

/// Memory of one thread.
struct Workspace {
  PieceCache cache;
  std::vector<int32_t> merged;  // ids of one piece
  std::vector<int32_t> ids;     // ids that were not passed on yet
};

/// Returns the special tokens that are found before or after normalization.
SpecialTokens select_tokens(const BytePairs& parts, bool normalized) {
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (const SpecialToken& token : parts.special) {
    if (token.normalized != normalized) continue;
    const bool changes = normalized && parts.normalize;
    tokens.emplace_back(changes ? nfc(token.text) : token.text, token.id);
  }
  return SpecialTokens(std::move(tokens));
}

class BytePairTokenizer : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairs parts)
      : table_(parts),
        patterns_(std::move(parts.patterns)),
        normalize_(parts.normalize),
        note_(std::move(parts.note)),
        before_(select_tokens(parts, false)),
        after_(select_tokens(parts, true)) {
    for (const auto& [symbol, id] : parts.vocabulary) {
      const std::optional<std::string> bytes = bytes_of_symbol(symbol);
      texts_[id] = bytes.value_or(symbol);
      if (parts.ignore_merges && bytes) whole_.emplace(*bytes, id);
      size_ = std::max(size_, int64_t{id} + 1);
    }
    for (const SpecialToken& token : parts.special) {
      texts_[token.id] = token.text;
      size_ = std::max(size_, int64_t{token.id} + 1);
    }
  }

  std::optional<TextProblem> encode(std::string_view text,
                                    const IdConsumer& consume) const override {
    if (auto problem = utf8_problem(text)) return problem;
    Pool<Workspace>::Lease work(pool_);
    work->ids.clear();
    std::optional<TextProblem> problem;
    const auto push = [&](int32_t id) {
      work->ids.push_back(id);
      return true;
    };
    before_.split(
        text,
        [&](std::string_view part) {
          problem = encode_part(part, *work, consume);
          if (problem) problem->offset += static_cast<size_t>(part.data() - text.data());
          return !problem;
        },
        push);
    if (!problem && !work->ids.empty()) consume(work->ids);
    return problem;
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) {
      const auto found = texts_.find(id);
      text += found == texts_.end() ? "\xEF\xBF\xBD" : found->second;
    }
    return text;
  }

  int64_t size() const override { return size_; }
  std::string note() const override { return note_; }

 private:
  /// Encodes the text between two tokens that are found before normalization. The offset of a
  /// problem is only exact in text that is normalized already.
  std::optional<TextProblem> encode_part(std::string_view part, Workspace& work,
                                         const IdConsumer& consume) const {
    const std::string normalized = normalize_ ? nfc(part) : std::string();
    const std::string_view text = normalize_ ? normalized : part;
    std::optional<TextProblem> problem;
    after_.split(
        text,
        [&](std::string_view rest) {
          problem = encode_pieces(rest, 0, work, consume);
          if (problem) problem->offset += static_cast<size_t>(rest.data() - text.data());
          return !problem;
        },
        [&](int32_t id) {
          work.ids.push_back(id);
          return true;
        });
    if (problem) problem->offset = std::min(problem->offset, part.size());
    return problem;
  }

  /// Cuts a text by the patterns from `level` and encodes the pieces.
  std::optional<TextProblem> encode_pieces(std::string_view text, size_t level, Workspace& work,
                                           const IdConsumer& consume) const {
    if (level == patterns_.size()) return encode_piece(text, work, consume);
    for (size_t at = 0, end = 0; at < text.size(); at = end) {
      end = end_of_piece(patterns_[level], text, at);
      auto problem = encode_pieces(text.substr(at, end - at), level + 1, work, consume);
      if (!problem) continue;
      problem->offset += at;
      return problem;
    }
    return {};
  }

  std::optional<TextProblem> encode_piece(std::string_view piece, Workspace& work,
                                          const IdConsumer& consume) const {
    constexpr size_t kBlock = 16384;
    if (work.ids.size() >= kBlock) {
      consume(work.ids);
      work.ids.clear();
    }
    if (piece.size() > PieceCache::kLongestPiece) return merge_piece(piece, work);
    const std::span<const int32_t> known = work.cache.find(piece);
    work.ids.insert(work.ids.end(), known.begin(), known.end());
    if (!known.empty()) return {};
    const size_t before = work.ids.size();
    if (auto problem = merge_piece(piece, work)) return problem;
    work.cache.insert(piece, std::span(work.ids).subspan(before));
    return {};
  }

  std::optional<TextProblem> merge_piece(std::string_view piece, Workspace& work) const {
    if (!whole_.empty()) {
      const auto whole = whole_.find(std::string(piece));
      if (whole != whole_.end()) {
        work.ids.push_back(whole->second);
        return {};
      }
    }
    work.merged.clear();
    for (const char c : piece) {
      const int32_t id = table_.id_of_byte(static_cast<unsigned char>(c));
      if (id < 0) return missing_byte(piece, work.merged.size());
      work.merged.push_back(id);
    }
    table_.merge(work.merged);
    work.ids.insert(work.ids.end(), work.merged.begin(), work.merged.end());
    return {};
  }

  /// Returns the problem of the byte at `offset`, at the start of its character.
  static TextProblem missing_byte(std::string_view piece, size_t offset) {
    const auto byte = static_cast<unsigned char>(piece[offset]);
    while (offset > 0 && (static_cast<unsigned char>(piece[offset]) & 0xC0) == 0x80) --offset;
    return {.offset = offset,
            .message = fmt::format("the vocabulary does not have byte 0x{:02x}, symbol `{}`", byte,
                                   symbol_of_byte(byte)),
            .hint = "use a vocabulary with all 256 bytes"};
  }

  MergeTable table_;
  std::vector<Pattern> patterns_;
  bool normalize_;
  std::string note_;
  SpecialTokens before_, after_;                    // found before and after normalization
  std::unordered_map<std::string, int32_t> whole_;  // pieces that are not merged
  std::unordered_map<int64_t, std::string> texts_;  // by id
  int64_t size_ = 0;
  mutable Pool<Workspace> pool_;
};

/// Throws RunError if two symbols or special tokens have the same id.
void require_different_ids(const BytePairs& parts) {
  std::unordered_map<int32_t, std::string_view> symbols;
  const auto add = [&](std::string_view symbol, int32_t id) {
    const auto [found, is_new] = symbols.emplace(id, symbol);
    if (!is_new && found->second != symbol)
      throw RunError(fmt::format("{}: `{}` and `{}` have the same id {}", parts.vocab_name,
                                 shortened(found->second), shortened(symbol), id));
  };
  for (const auto& [symbol, id] : parts.vocabulary) add(symbol, id);
  for (const SpecialToken& token : parts.special) add(token.text, token.id);
}

}  // namespace

std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(BytePairs parts) {
  require_different_ids(parts);
  return std::make_unique<BytePairTokenizer>(std::move(parts));
}

}  // namespace flow::data
