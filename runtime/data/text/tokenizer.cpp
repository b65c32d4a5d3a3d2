// The tokenizers of bytes and of characters, and the choice of a tokenizer.
#include "runtime/data/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/data/files/unpack.h"
#include "runtime/data/text/utf8.h"

namespace flow::data {

std::optional<TextProblem> Tokenizer::encode(std::string_view text,
                                             std::vector<int64_t>& ids) const {
  return encode(text, [&](std::span<const int32_t> block) {
    ids.insert(ids.end(), block.begin(), block.end());
  });
}

std::optional<TextProblem> utf8_problem(std::string_view text) {
  const auto at = find_invalid_utf8(text);
  if (!at) return {};
  const auto byte = static_cast<unsigned char>(text[*at]);
  return TextProblem{.offset = *at,
                     .message = fmt::format("invalid UTF-8: byte 0x{:02x}", byte),
                     .hint = "convert the file to UTF-8, for example with iconv"};
}

TextProblem unknown_character(char32_t code, size_t offset) {
  return {.offset = offset,
          .message = fmt::format("unknown character {}", shown_code_point(code)),
          .hint = "add it to the list of characters, or write `unknown: extra`"};
}

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

constexpr size_t kIdsInBlock = 16384;  // ids that are passed on together

/// Collects ids and passes them on in blocks.
class IdBlock {
 public:
  explicit IdBlock(const IdConsumer& consume) : consume_(consume) {}
  void push(int32_t id) {
    ids_.push_back(id);
    if (ids_.size() == kIdsInBlock) flush();
  }
  void flush() {
    if (!ids_.empty()) consume_(ids_);
    ids_.clear();
  }

 private:
  const IdConsumer& consume_;
  std::vector<int32_t> ids_;
};

class BytesTokenizer : public Tokenizer {
 public:
  std::optional<TextProblem> encode(std::string_view text,
                                    const IdConsumer& consume) const override {
    std::vector<int32_t> block;
    for (; !text.empty(); text.remove_prefix(block.size())) {
      const std::string_view part = text.substr(0, kIdsInBlock);
      block.resize(part.size());
      std::ranges::transform(part, block.begin(),
                             [](char c) { return static_cast<unsigned char>(c); });
      consume(block);
    }
    return {};
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) {
      if (id >= 0 && id < size())
        text += static_cast<char>(id);
      else
        text += kReplacement;
    }
    return text;
  }

  int64_t size() const override { return 256; }
};

/// Passes on id_of(code) for each code point of a text. A negative id is an unknown character.
template <typename IdOf>
std::optional<TextProblem> encode_code_points(std::string_view text, const IdConsumer& consume,
                                              IdOf id_of) {
  if (auto problem = utf8_problem(text)) return problem;
  IdBlock block(consume);
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const int32_t id = id_of(point.code);
    if (id < 0) return unknown_character(point.code, at);
    block.push(id);
    at += point.bytes;
  }
  block.flush();
  return {};
}

class CodePointsTokenizer : public Tokenizer {
 public:
  std::optional<TextProblem> encode(std::string_view text,
                                    const IdConsumer& consume) const override {
    return encode_code_points(text, consume,
                              [](char32_t code) { return static_cast<int32_t>(code); });
  }

  std::string decode(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) {
      const bool scalar = id >= 0 && id < size() && (id < 0xD800 || id > 0xDFFF);
      if (scalar)
        append_utf8(static_cast<char32_t>(id), text);
      else
        text += kReplacement;
    }
    return text;
  }

  int64_t size() const override { return 0x110000; }
};

class CharactersTokenizer : public Tokenizer {
 public:
  explicit CharactersTokenizer(CharacterIds characters) : characters_(std::move(characters)) {}

  std::optional<TextProblem> encode(std::string_view text,
                                    const IdConsumer& consume) const override {
    return encode_code_points(text, consume,
                              [this](char32_t code) { return characters_.id_of(code); });
  }

  std::string decode(std::span<const int64_t> ids) const override {
    const std::u32string& list = characters_.characters();
    std::string text;
    for (const int64_t id : ids) {
      if (id >= 0 && static_cast<uint64_t>(id) < list.size())
        append_utf8(list[static_cast<size_t>(id)], text);
      else
        text += kReplacement;
    }
    return text;
  }

  int64_t size() const override { return characters_.size(); }

 private:
  CharacterIds characters_;
};

constexpr char32_t kLowCodePoints = 0x10000;

}  // namespace

CharacterIds::CharacterIds(std::u32string characters, const plan::Replacement& unknown)
    : characters_(std::move(characters)), low_(kLowCodePoints, -1) {
  std::vector<std::pair<char32_t, int32_t>> ids;
  for (const char32_t code : characters_) ids.emplace_back(code, static_cast<int32_t>(ids.size()));
  std::ranges::sort(ids);
  const auto twice = std::ranges::adjacent_find(ids, {}, &std::pair<char32_t, int32_t>::first);
  if (twice != ids.end())
    throw RequestError(
        fmt::format("the list of characters has {} twice", shown_code_point(twice->first)));
  for (const auto& [code, id] : ids) {
    if (code < kLowCodePoints)
      low_[code] = id;
    else
      high_.emplace_back(code, id);
  }
  if (unknown.kind == plan::Replacement::Kind::kExtra)
    unknown_ = static_cast<int32_t>(characters_.size());
  if (unknown.kind != plan::Replacement::Kind::kCategory) return;
  const bool valid = !find_invalid_utf8(unknown.category);
  const std::u32string codes = valid ? code_points_of(unknown.category) : U"";
  unknown_ = codes.size() == 1 ? id_of(codes[0]) : -1;
  if (unknown_ < 0)
    throw RequestError(fmt::format("`unknown: {}` is not one of the characters", unknown.category),
                       "write `unknown: extra`, or one character of the list");
}

int32_t CharacterIds::id_of(char32_t code) const {
  if (code < kLowCodePoints) return low_[code] >= 0 ? low_[code] : unknown_;
  const auto found =
      std::ranges::lower_bound(high_, code, {}, &std::pair<char32_t, int32_t>::first);
  return found != high_.end() && found->first == code ? found->second : unknown_;
}

int64_t CharacterIds::size() const {
  return std::max(static_cast<int64_t>(characters_.size()), int64_t{unknown_} + 1);
}

std::unique_ptr<Tokenizer> bytes_tokenizer() { return std::make_unique<BytesTokenizer>(); }

std::unique_ptr<Tokenizer> code_points_tokenizer() {
  return std::make_unique<CodePointsTokenizer>();
}

std::unique_ptr<Tokenizer> characters_tokenizer(CharacterIds characters) {
  return std::make_unique<CharactersTokenizer>(std::move(characters));
}

namespace {

NamedText read_tokenizer_file(const fs::path& path) {
  const auto stream = open_stream(path);
  return {path.string(), read_all(*stream, kLargestTokenizerFile, path.string())};
}

std::unique_ptr<Tokenizer> open_characters(const plan::Tokenizer& tokenizer,
                                           const plan::Replacement& unknown,
                                           const std::optional<std::u32string>& learned) {
  if (tokenizer.characters.empty())
    return learned ? characters_tokenizer({*learned, unknown}) : code_points_tokenizer();
  if (find_invalid_utf8(tokenizer.characters))
    throw RequestError("the list of characters is not UTF-8");
  return characters_tokenizer({code_points_of(tokenizer.characters), unknown});
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const plan::Tokenizer& tokenizer,
                                          const plan::Replacement& unknown,
                                          const std::optional<std::u32string>& learned,
                                          const fs::path& root) {
  using enum plan::Tokenizer::Kind;
  switch (tokenizer.kind) {
    case kBytes:
      return bytes_tokenizer();
    case kCharacters:
      return open_characters(tokenizer, unknown, learned);
    case kBytePairs:
      return byte_pair_tokenizer(read_tokenizer_file(root / tokenizer.vocab),
                                 read_tokenizer_file(root / tokenizer.merges), tokenizer.special);
    default:
      return json_tokenizer(read_tokenizer_file(root / tokenizer.json));
  }
}

}  // namespace flow::data
