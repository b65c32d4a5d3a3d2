// Tokenizers: bytes, characters, merges against a naive loop, and files that are damaged or do not
// fit.
#include "runtime/data/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "runtime/data/text/byte_pairs.h"
#include "runtime/data/text/special_tokens.h"
#include "runtime/data/text/utf8.h"
#include "tests/support/fresh_directory.h"

namespace flow::data {
namespace {

using Ids = std::vector<int64_t>;

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  const auto problem = tokenizer.encode(text, ids);
  INFO((problem ? problem->message : ""));
  CHECK_FALSE(problem);
  return ids;
}

std::string problem_of(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  const auto problem = tokenizer.encode(text, ids);
  return problem ? fmt::format("{}: {}", problem->offset, problem->message) : "none";
}

template <typename Call>
std::string thrown_by(Call call) {
  try {
    call();
  } catch (const RunError& error) {
    return error.what();
  }
  return "nothing";
}

const plan::Replacement kNoUnknown{};

plan::Replacement replacement(plan::Replacement::Kind kind, std::string category = {}) {
  return {.kind = kind, .number = 0, .category = std::move(category)};
}

TEST_CASE("bytes are their own ids", "[data]") {
  const auto tokenizer = bytes_tokenizer();
  CHECK(encoded(*tokenizer, std::string_view("a\xFF\0", 3)) == Ids{97, 255, 0});
  CHECK(tokenizer->size() == 256);
  CHECK(tokenizer->decode(Ids{97, 255, 256, -1}) == "a\xFF\uFFFD\uFFFD");
  CHECK(encoded(*tokenizer, std::string(40000, 'x')) == Ids(40000, 'x'));
}

TEST_CASE("code points are ids until characters are learned", "[data]") {
  const auto tokenizer = code_points_tokenizer();
  CHECK(encoded(*tokenizer, "aé😀") == Ids{97, 0xE9, 0x1F600});
  CHECK(tokenizer->decode(Ids{97, 0x1F600, 0xD800, 0x110000}) == "a😀\uFFFD\uFFFD");
  CHECK(problem_of(*tokenizer, "ab\xC3") == "2: invalid UTF-8: byte 0xc3");
}

TEST_CASE("characters have the ids of their positions", "[data]") {
  const auto tokenizer = characters_tokenizer({U"cé😀", kNoUnknown});
  CHECK(encoded(*tokenizer, "😀éc") == Ids{2, 1, 0});
  CHECK(tokenizer->size() == 3);
  CHECK(problem_of(*tokenizer, "céx") == "3: unknown character `x` (U+0078)");
  CHECK(problem_of(*tokenizer, "😃") == "0: unknown character `😃` (U+1F603)");
  CHECK(tokenizer->decode(Ids{0, 2, 3}) == "c😀\uFFFD");
}

TEST_CASE("unknown characters get an id of their own or that of a character", "[data]") {
  using enum plan::Replacement::Kind;
  const auto extra = characters_tokenizer({U"ab", replacement(kExtra)});
  CHECK(encoded(*extra, "ax😀b") == Ids{0, 2, 2, 1});
  CHECK(extra->size() == 3);
  const auto given = characters_tokenizer({U"ab", replacement(kCategory, "b")});
  CHECK(encoded(*given, "ax") == Ids{0, 1});
  CHECK(given->size() == 2);
  CHECK(thrown_by([] { CharacterIds(U"ab", replacement(kCategory, "c")); }) ==
        "`unknown: c` is not one of the characters");
  CHECK(thrown_by([] { CharacterIds(U"ab", replacement(kCategory, "ab")); }) ==
        "`unknown: ab` is not one of the characters");
  CHECK(thrown_by([] { CharacterIds(U"aba", kNoUnknown); }) ==
        "the list of characters has `a` (U+0061) twice");
}

TEST_CASE("special tokens are the earliest, then the longest", "[data]") {
  const SpecialTokens tokens({{"<a>", 1}, {"<a>b", 2}, {"b<", 3}, {"", 9}, {"é", 4}});
  std::string found;
  tokens.split(
      "x<a>b<a>é<a",
      [&](std::string_view text) {
        found += fmt::format("[{}]", text);
        return true;
      },
      [&](int32_t id) {
        found += std::to_string(id);
        return true;
      });
  CHECK(found == "[x]214[<a]");
  CHECK(thrown_by([] {
          SpecialTokens({{"a", 1}, {"a", 2}});
        }) == "special token `a` has the ids 1 and 2");
  CHECK(thrown_by([] {
          SpecialTokens({{std::string(1025, 'a'), 1}});
        }).find("1025 bytes") != std::string::npos);
}

/// The merges of GPT-2's encoder, word for word: the first merge of the list that occurs joins all
/// its occurrences.
std::vector<std::string> naive_merge(std::vector<std::string> symbols,
                                     const std::vector<Merge>& merges) {
  while (true) {
    const auto occurs = [&](const Merge& merge) {
      for (size_t i = 0; i + 1 < symbols.size(); ++i)
        if (symbols[i] == merge.left && symbols[i + 1] == merge.right) return true;
      return false;
    };
    const auto best = std::ranges::find_if(merges, occurs);
    if (best == merges.end()) return symbols;
    std::vector<std::string> joined;
    for (size_t i = 0; i < symbols.size(); ++i) {
      const bool joins =
          i + 1 < symbols.size() && symbols[i] == best->left && symbols[i + 1] == best->right;
      joined.push_back(joins ? symbols[i] + symbols[i + 1] : symbols[i]);
      i += joins;
    }
    symbols = joined;
  }
}

/// Random merges over the letters a to c, in a random order: parts may come after the whole.
BytePairs random_pairs(std::mt19937& random) {
  BytePairs parts{.vocab_name = "v",
                  .merges_name = "m:",
                  .vocabulary = {},
                  .merges = {},
                  .special = {},
                  .patterns = {},
                  .note = {}};
  std::vector<std::string> symbols = {"a", "b", "c"};
  for (int i = 0; i < 12; ++i) {
    const std::string left = symbols[random() % symbols.size()];
    const std::string right = symbols[random() % symbols.size()];
    parts.merges.push_back({left, right, 0});
    if (std::ranges::find(symbols, left + right) == symbols.end()) symbols.push_back(left + right);
  }
  std::ranges::shuffle(parts.merges, random);
  for (const std::string& symbol : symbols)
    parts.vocabulary.emplace_back(symbol, static_cast<int32_t>(parts.vocabulary.size()));
  return parts;
}

TEST_CASE("short and long pieces are merged like a naive loop merges them", "[data]") {
  std::mt19937 random(3);
  for (int round = 0; round < 1500; ++round) {
    const BytePairs parts = random_pairs(random);
    std::vector<std::string> symbols(random() % 100);
    for (std::string& symbol : symbols) symbol = static_cast<char>('a' + random() % 3);
    std::string text;
    for (const std::string& symbol : symbols) text += symbol;
    Ids expected;
    for (const std::string& symbol : naive_merge(symbols, parts.merges))
      expected.push_back(
          std::ranges::find(parts.vocabulary, symbol, &Vocabulary::value_type::first)->second);
    REQUIRE(encoded(*make_byte_pair_tokenizer(parts), text) == expected);
  }
}

TEST_CASE("GPT-2's alphabet is a permutation of the bytes", "[data]") {
  for (int byte = 0; byte < 256; ++byte)
    CHECK(bytes_of_symbol(symbol_of_byte(static_cast<unsigned char>(byte))) ==
          std::string(1, static_cast<char>(byte)));
  CHECK(symbol_of_byte(' ') == "Ġ");
  CHECK(symbol_of_byte('\n') == "Ċ");
  CHECK(symbol_of_byte(0xAD) == "\u0143");
  CHECK_FALSE(bytes_of_symbol("a b"));
  CHECK_FALSE(bytes_of_symbol("你"));
}

const NamedText kVocab = {"v.json", R"({"a": 0, "b": 1, "ab": 2, "Ġ": 5, "<s>": 7})"};

std::unique_ptr<Tokenizer> with_merges(const std::string& merges,
                                       std::vector<std::string> special = {}) {
  return byte_pair_tokenizer(kVocab, {"m.txt", merges}, special);
}

std::string refused_merges(const std::string& merges) {
  return thrown_by([&] { with_merges(merges); });
}

TEST_CASE("merges.txt has a version, empty lines and lines of two symbols", "[data]") {
  const auto tokenizer = with_merges("#version: 0.2\n\na b\r\n");
  CHECK(encoded(*tokenizer, "ab ab") == Ids{2, 5, 2});
  CHECK(tokenizer->size() == 8);
  CHECK(tokenizer->decode(Ids{2, 5, 7, 3}) == "ab <s>\uFFFD");
  CHECK(refused_merges("a b\n#version\n") ==
        "m.txt:2: expected two symbols and one space, found `#version`");
  CHECK(refused_merges("a  b") == "m.txt:1: expected two symbols and one space, found `a  b`");
  CHECK(refused_merges(" a") == "m.txt:1: expected two symbols and one space, found ` a`");
  CHECK(refused_merges("a b c") == "m.txt:1: expected two symbols and one space, found `a b c`");
  CHECK(refused_merges("a \xFF") == "m.txt is not UTF-8 at byte 2");
}

TEST_CASE("merges that do not fit the vocabulary are refused", "[data]") {
  CHECK(refused_merges("#version\na b\nb a") == "m.txt:3: `ba` is not in v.json");
  CHECK(refused_merges("a c") == "m.txt:1: `c` is not in v.json");
}

TEST_CASE("bytes that the vocabulary lacks are problems of the text", "[data]") {
  const auto tokenizer = with_merges("a b", {"<s>"});
  CHECK(encoded(*tokenizer, "a<s>b") == Ids{0, 7, 1});
  CHECK(problem_of(*tokenizer, "ab<s>aab\n") ==
        "8: the vocabulary does not have byte 0x0a, symbol `Ċ`");
  const auto half = byte_pair_tokenizer({"v.json", R"({"Ã": 0})"}, {"m.txt", ""}, {});
  CHECK(problem_of(*half, "\u00c3\u00e9") ==
        "0: the vocabulary does not have byte 0x83, symbol `\u0125`");
  CHECK(problem_of(*tokenizer, "ab\xFF") == "2: invalid UTF-8: byte 0xff");
  CHECK(problem_of(*with_merges("a b"), "a<s>") ==
        "1: the vocabulary does not have byte 0x3c, symbol `<`");
  CHECK(thrown_by([] { with_merges("a b", {"<x>"}); }) == "special token `<x>` is not in v.json");
}

std::string refused_vocab(const std::string& text) {
  return thrown_by([&] { parse_vocabulary({"v.json", text}); });
}

TEST_CASE("damaged vocabularies are refused", "[data]") {
  CHECK(refused_vocab("[]") == "v.json: expected an object of ids");
  CHECK(refused_vocab("{") == "v.json:1:2: invalid JSON: unexpected end of file");
  CHECK(refused_vocab(R"({"a": -1})") ==
        "v.json: `a`: expected an id from 0 to 2147483646, found -1");
  CHECK(refused_vocab(R"({"a": 1.0})") ==
        "v.json: `a`: expected an id from 0 to 2147483646, found 1.0");
  CHECK(refused_vocab(R"({"a": 2147483647})").find("found 2147483647") != std::string::npos);
  CHECK(refused_vocab(R"({"a": {"b": 1}})") ==
        "v.json: `a`: expected an id from 0 to 2147483646, found object");
  CHECK(refused_vocab(R"({"a": 1, "a": 1})") == "v.json: duplicate key `a`");
  CHECK(refused_vocab("{\"a\": " + std::string(100000, '[')).find("nested more than") !=
        std::string::npos);
  CHECK(thrown_by([] {
          byte_pair_tokenizer({"v.json", R"({"a": 1, "b": 1})"}, {"m", ""}, {});
        }) == "v.json: `a` and `b` have the same id 1");
}

std::string tokenizer_file(const std::string& model, const std::string& more) {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2})" + model + "}" + more +
         "}";
}
const std::string kByteLevel =
    R"(, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false})";

std::string refused_file(const std::string& model, const std::string& more) {
  return thrown_by([&] { json_tokenizer({"t.json", tokenizer_file(model, more)}); });
}

TEST_CASE("tokenizer.json reads merges as texts and pairs", "[data]") {
  for (const char* const merges : {R"(, "merges": ["a b"])", R"(, "merges": [["a", "b"]])"}) {
    const auto tokenizer = json_tokenizer({"t.json", tokenizer_file(merges, kByteLevel)});
    CHECK(encoded(*tokenizer, "aab") == Ids{0, 2});
    CHECK(tokenizer->note() == "");
  }
  const std::string ignored =
      R"(, "post_processor": {"type": "x"}, "decoder": {}, "version": "1.0")";
  CHECK(json_tokenizer({"t.json", tokenizer_file(R"(, "merges": [])", kByteLevel + ignored)})
            ->note() ==
        "t.json: post_processor and decoder are ignored; only `begin` and `end` add ids");
}

TEST_CASE("parts of tokenizer.json that are not supported are named", "[data]") {
  const std::string merges = R"(, "merges": [])";
  const auto part = [&](const std::string& more) { return refused_file(merges, more); };
  CHECK(part("") == "t.json: pre_tokenizer.type: expected \"ByteLevel\", found null");
  CHECK(part(kByteLevel + R"(, "truncation": {"max_length": 5})") ==
        "t.json: truncation: expected null, found object");
  CHECK(part(kByteLevel + R"(, "other": 1)") == "t.json: other: this part is not supported");
  CHECK(part(kByteLevel + R"(, "normalizer": {"type": "NFKC"})") ==
        "t.json: normalizer.type: expected \"NFC\", found \"NFKC\"");
  CHECK(part(R"(, "pre_tokenizer": {"type": "ByteLevel"})") ==
        "t.json: pre_tokenizer.add_prefix_space: expected false");
  CHECK(part(R"(, "pre_tokenizer": {"type": "Whitespace"})") ==
        "t.json: pre_tokenizer.type: expected \"ByteLevel\", found \"Whitespace\"");
  CHECK(part(R"(, "pre_tokenizer": {"type": "Sequence", "pretokenizers": []})") ==
        "t.json: pre_tokenizer.pretokenizers: expected ByteLevel, or Split and ByteLevel");
  CHECK(part(R"(, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split",)"
             R"("pattern": {"Regex": "x+"}}, {}]})") ==
        "t.json: pre_tokenizer.pretokenizers[0].pattern.Regex: expected the pattern of GPT-2 or "
        "cl100k, found \"x+\"");
  CHECK(refused_file(R"(, "merges": ["a b c"])", kByteLevel) ==
        "t.json: model.merges, number 1: expected a pair of symbols");
  CHECK(refused_file(R"(, "merges": [["a", ""]])", kByteLevel) ==
        "t.json: model.merges, number 1: expected a pair of symbols");
  CHECK(refused_file(R"(, "merges": ["a b", "b b"])", kByteLevel) ==
        "t.json: model.merges, number 2: `bb` is not in t.json: model.vocab");
  CHECK(refused_file("", kByteLevel) == "t.json: model.merges: expected a list, found null");
  const auto model = [&](const std::string& more) {
    return refused_file(merges + more, kByteLevel);
  };
  CHECK(model(R"(, "dropout": 0.1)") == "t.json: model.dropout: expected 0.0, found 0.1");
  CHECK(model(R"(, "byte_fallback": true)") ==
        "t.json: model.byte_fallback: expected false, found true");
  CHECK(model(R"(, "unk_token": "a")") == "t.json: model.unk_token: expected null, found \"a\"");
  CHECK(model(R"(, "ignore_merges": 1)") ==
        "t.json: model.ignore_merges: expected true or false, found 1");
  CHECK(model(R"(, "dropout": null, "unk_token": null, "fuse_unk": false)") == "nothing");
  CHECK(thrown_by([] {
          json_tokenizer({"t.json", R"({"model": {"type": "WordPiece"}})"});
        }) == "t.json: model.type: expected \"BPE\", found \"WordPiece\"");
  CHECK(thrown_by([] {
          json_tokenizer({"t.json", "[]"});
        }) == "t.json: the file: expected an object, found array");
}

TEST_CASE("added tokens of tokenizer.json are checked", "[data]") {
  const auto added = [](const std::string& token) {
    return tokenizer_file(R"(, "merges": [])", kByteLevel + R"(, "added_tokens": [)" + token + "]");
  };
  const auto refused = [&](const std::string& token) {
    return thrown_by([&] { json_tokenizer({"t.json", added(token)}); });
  };
  const auto tokenizer = json_tokenizer(
      {"t.json", added(R"({"id": 9, "content": "<s>", "lstrip": false, "special": true})")});
  CHECK(encoded(*tokenizer, "a<s>b") == Ids{0, 9, 1});
  CHECK(tokenizer->size() == 10);
  CHECK(refused(R"({"id": 9, "content": "<s>", "lstrip": true})") ==
        "t.json: added_tokens[0].lstrip: expected false, found true");
  CHECK(refused(R"({"id": 9, "content": 1})") ==
        "t.json: added_tokens[0].content: expected a text, found 1");
  CHECK(refused(R"({"content": "<s>"})") ==
        "t.json: added_tokens[0].id: expected an id from 0 to 2147483646, found null");
  CHECK(refused(R"({"id": 1, "content": "<s>"})") ==
        "t.json: model.vocab: `b` and `<s>` have the same id 1");
  CHECK(refused(R"({"id": 4, "content": "b"})") ==
        "t.json: added_tokens[0].id: `b` has the id 4, but 1 in model.vocab");
}

TEST_CASE("a long piece without a pattern takes little time", "[data]") {
  const std::string file = tokenizer_file(
      R"(, "merges": ["a b"])",
      R"(, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})");
  std::string text;
  for (int i = 0; i < 500000; ++i) text += "ab";
  CHECK(encoded(*json_tokenizer({"t.json", file}), text) == Ids(500000, 2));
}

TEST_CASE("several threads use one tokenizer", "[data]") {
  const auto tokenizer = with_merges("a b");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += i % 3 == 0 ? "ab " : "aab ";
  const Ids expected = encoded(*tokenizer, text);
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& ids : results) threads.emplace_back([&] { tokenizer->encode(text, ids); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : results) CHECK(ids == expected);
}

TEST_CASE("tokenizers open the files of a job", "[data]") {
  const FreshDirectory directory;
  write_text_atomically(directory / "v.json", kVocab.text);
  write_text_atomically(directory / "m.txt", "a b\n");
  plan::Tokenizer pairs;
  pairs.kind = plan::Tokenizer::Kind::kBytePairs;
  pairs.vocab = "v.json";
  pairs.merges = "m.txt";
  CHECK(encoded(*open_tokenizer(pairs, kNoUnknown, {}, directory.path()), "ab") == Ids{2});
  pairs.merges = "missing.txt";
  CHECK(thrown_by([&] {
          open_tokenizer(pairs, kNoUnknown, {}, directory.path());
        }).find("missing.txt") != std::string::npos);
  plan::Tokenizer characters;
  characters.kind = plan::Tokenizer::Kind::kCharacters;
  CHECK(encoded(*open_tokenizer(characters, kNoUnknown, {}, {}), "b") == Ids{98});
  CHECK(encoded(*open_tokenizer(characters, kNoUnknown, U"ab", {}), "b") == Ids{1});
  characters.characters = "xb";
  CHECK(encoded(*open_tokenizer(characters, kNoUnknown, {}, {}), "b") == Ids{1});
  CHECK(encoded(*open_tokenizer({}, kNoUnknown, {}, {}), "b") == Ids{98});
}

}  // namespace
}  // namespace flow::data
