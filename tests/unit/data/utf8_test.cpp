// UTF-8: validation against a naive table of ranges, code points, and NFC of hostile texts.
#include "runtime/data/text/utf8.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace flow::data {
namespace {

/// Table 3-7 of the Unicode Standard: the ranges of the bytes of well-formed sequences.
size_t naive_length(std::string_view text) {
  struct Range {
    unsigned low, high;
  };
  static const std::vector<std::vector<Range>> kRows = {
      {{0x00, 0x7F}},
      {{0xC2, 0xDF}, {0x80, 0xBF}},
      {{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
      {{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
      {{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
      {{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}}};
  for (const auto& row : kRows) {
    bool fits = text.size() >= row.size();
    for (size_t i = 0; fits && i < row.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      fits = byte >= row[i].low && byte <= row[i].high;
    }
    if (fits) return row.size();
  }
  return 0;
}

TEST_CASE("invalid UTF-8 is found at its first byte", "[data]") {
  const std::string bytes = {'a',    '\x7F', '\x80', '\xA0', '\xBF', '\xC1', '\xC2', '\xE0',
                             '\xED', '\xEF', '\xF0', '\xF4', '\xF5', '\x90', '\x8F', '\x00'};
  size_t wrong = 0;
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    std::string text = "12345678";
    for (uint32_t i = 0; i < 4; ++i) text += bytes[pattern >> (4 * i) & 15];
    size_t at = 0;
    while (at < text.size() && naive_length(std::string_view(text).substr(at)) > 0)
      at += naive_length(std::string_view(text).substr(at));
    wrong += find_invalid_utf8(text).value_or(text.size()) != at;
  }
  CHECK(wrong == 0);
}

TEST_CASE("code points survive the way to UTF-8 and back", "[data]") {
  std::string text;
  std::u32string codes;
  for (char32_t code = 0; code < 0x110000; code += 37) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    codes += code;
    append_utf8(code, text);
  }
  CHECK_FALSE(find_invalid_utf8(text));
  CHECK(code_points_of(text) == codes);
  CHECK(count_code_points(text) == codes.size());
  CHECK(shown_code_point(0xE9) == "`é` (U+00E9)");
}

TEST_CASE("a byte order mark is removed once", "[data]") {
  CHECK(without_byte_order_mark("\xEF\xBB\xBF\xEF\xBB\xBFx") == "\xEF\xBB\xBFx");
  CHECK(without_byte_order_mark("x") == "x");
}

TEST_CASE("NFC composes, orders marks and keeps exclusions", "[data]") {
  CHECK(nfc("") == "");
  CHECK(nfc("abc e\u0301 x") == "abc \u00e9 x");
  CHECK(nfc("q\u0307\u0323") == "q\u0323\u0307");
  CHECK(nfc("\u1100\u1161\u11a8") == "\uac01");
  CHECK(nfc("\u212b\u0958") == "\u00c5\u0915\u093c");
  CHECK(nfc("\u0344") == "\u0308\u0301");
}

TEST_CASE("NFC takes linear time for long runs of marks", "[data]") {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  const auto begin = std::chrono::steady_clock::now();
  const std::string composed = nfc(text);
  CHECK(composed.starts_with("\u1ea1\u0323"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

}  // namespace
}  // namespace flow::data
