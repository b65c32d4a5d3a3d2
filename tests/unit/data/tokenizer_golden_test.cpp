// Tokenizers against the ids of Hugging Face's tokenizers, and both patterns around every code
// point.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/data/files/unpack.h"
#include "runtime/data/text/byte_pairs.h"
#include "runtime/data/text/tokenizer.h"
#include "runtime/data/text/utf8.h"
#include "runtime/plan/json/json.h"
#include "tests/support/source_files.h"

namespace flow::data {
namespace {

const Json& golden_ids() {
  static const Json json = [] {
    const fs::path path = test::source_path("tests/golden/data/tokenizer_ids.json.gz");
    return Json::parse(read_all(*open_stream(path), uint64_t{1} << 26, path.string()));
  }();
  return json;
}

NamedText golden_file(const char* name) {
  return {name, golden_ids()["files"][name].get<std::string>()};
}

void check_ids(const Tokenizer& tokenizer, const char* name, bool decodes = true) {
  for (size_t i = 0; i < golden_ids()["texts"].size(); ++i) {
    const auto text = golden_ids()["texts"][i].get<std::string>();
    std::vector<int64_t> ids;
    const auto problem = tokenizer.encode(text, ids);
    INFO(fmt::format("{}, text {}: {}", name, i, text));
    CHECK_FALSE(problem);
    REQUIRE(ids == golden_ids()["ids"][name][i].get<std::vector<int64_t>>());
    if (decodes) CHECK(tokenizer.decode(ids) == text);
  }
}

TEST_CASE("vocab.json and merges.txt give the ids of the reference", "[data]") {
  const NamedText vocab = golden_file("vocab.json"), merges = golden_file("merges.txt");
  const auto plain = byte_pair_tokenizer(vocab, merges, {});
  check_ids(*plain, "plain");
  CHECK(plain->size() == 901);
  const std::vector<std::string> special = {"<|endoftext|>", "<|end|>"};
  check_ids(*byte_pair_tokenizer(vocab, merges, special), "special");
}

TEST_CASE("tokenizer.json gives the ids of the reference", "[data]") {
  for (const char* const name : {"cl100k", "whole", "twice"})
    check_ids(*json_tokenizer(golden_file(name)), name);
}

TEST_CASE("NFC precedes the cut, but not tokens that are found before it", "[data]") {
  check_ids(*json_tokenizer(golden_file("nfc")), "nfc", false);
}

TEST_CASE("texts are normalized to NFC as Python normalizes them", "[data]") {
  for (size_t i = 0; i < golden_ids()["texts"].size(); ++i) {
    INFO(i);
    CHECK(nfc(golden_ids()["texts"][i].get<std::string>()) ==
          golden_ids()["nfc"][i].get<std::string>());
  }
}

std::string probe(char32_t code) {
  std::string c;
  append_utf8(code, c);
  return fmt::format("x{0}x 1{0}1 !{0}! {0}{0} \n{0}\n'{0}s {0}", c);
}

std::string cuts(Pattern pattern, const std::string& text) {
  std::string lengths;
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    end = end_of_piece(pattern, text, at);
    if (at > 0) lengths += ' ';
    lengths += std::to_string(count_code_points(std::string_view(text).substr(at, end - at)));
  }
  return lengths;
}

void check_pattern(Pattern pattern, const char* name) {
  const Json& expected = golden_ids()["patterns"][name];
  const auto all_cuts = expected["cuts"].get<std::vector<std::string>>();
  const auto runs = expected["runs"].get<std::vector<std::pair<char32_t, int>>>();
  size_t wrong = 0;
  for (size_t run = 0; run < runs.size(); ++run) {
    const auto [begin, index] = runs[run];
    const char32_t end = run + 1 < runs.size() ? runs[run + 1].first : 0x110000;
    if (index < 0) continue;  // not assigned in Unicode 15.0
    for (char32_t code = begin; code < end; ++code) {
      const std::string found = cuts(pattern, probe(code));
      if (found == all_cuts[static_cast<size_t>(index)]) continue;
      if (++wrong < 10)
        UNSCOPED_INFO(fmt::format("U+{:04X}: {}", static_cast<uint32_t>(code), found));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the patterns cut around every code point as the reference does", "[data]") {
  check_pattern(Pattern::kGpt2, "gpt2");
  check_pattern(Pattern::kCl100k, "cl100k");
}

}  // namespace
}  // namespace flow::data
