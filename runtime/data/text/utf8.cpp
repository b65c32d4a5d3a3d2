// Reads UTF-8 and normalizes it with the tables of utf8proc 2.8.0, which has Unicode 15.0.
#include "runtime/data/text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/base/display.h"
#include "runtime/base/error.h"

namespace flow::data {

namespace {

/// Returns the offset of the first byte from `at` on that is not ASCII, or the size of the text.
size_t end_of_ascii(std::string_view text, size_t at) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  for (uint64_t word = 0; text.size() - at >= sizeof word; at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if (word & kHighBits) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  size_t at = end_of_ascii(text, 0);
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!character.valid) return at;
    at += character.bytes;
    if (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80)
      at = end_of_ascii(text, at);
  }
  return {};
}

size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, is_continuation));
}

std::u32string code_points_of(std::string_view text) {
  std::u32string codes;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    codes += point.code;
    at += point.bytes;
  }
  return codes;
}

void append_utf8(char32_t code, std::string& text) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(count));
}

std::string shown_code_point(char32_t code) {
  std::string text;
  append_utf8(code, text);
  return fmt::format("`{}` (U+{:04X})", text, static_cast<uint32_t>(code));
}

namespace {

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

CharacterClass class_by_category(char32_t code) {
  if (is_white_space(code)) return CharacterClass::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::kNumber;
    default:
      return CharacterClass::kOther;
  }
}

}  // namespace

CharacterClass class_of(char32_t code) {
  constexpr char32_t kTabulated = 0x10000;
  static const std::vector<CharacterClass> classes = [] {
    std::vector<CharacterClass> table(kTabulated);
    for (char32_t each = 0; each < kTabulated; ++each) table[each] = class_by_category(each);
    return table;
  }();
  return code < kTabulated ? classes[code] : class_by_category(code);
}

namespace {

using Code = utf8proc_int32_t;

void decompose(Code code, std::vector<Code>& codes) {
  constexpr size_t kLongest = 18;  // U+FDFA has the longest decomposition of Unicode
  const size_t before = codes.size();
  codes.resize(before + kLongest);
  int boundary = 0;
  const auto count =
      utf8proc_decompose_char(code, codes.data() + before, kLongest, UTF8PROC_DECOMPOSE, &boundary);
  FLOW_CHECK(count > 0 && static_cast<size_t>(count) <= kLongest);
  codes.resize(before + static_cast<size_t>(count));
}

int combining_class(Code code) { return utf8proc_get_property(code)->combining_class; }

/// Sorts each run of combining characters by class. utf8proc's own sort takes quadratic time.
void order_marks(std::vector<Code>& codes) {
  const auto is_mark = [](Code code) { return combining_class(code) != 0; };
  for (auto at = codes.begin(); at != codes.end();) {
    const auto begin = std::find_if(at, codes.end(), is_mark);
    at = std::find_if_not(begin, codes.end(), is_mark);
    std::stable_sort(begin, at,
                     [](Code a, Code b) { return combining_class(a) < combining_class(b); });
  }
}

void append_composed(std::string_view text, std::string& out) {
  std::vector<Code> codes;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    decompose(static_cast<Code>(point.code), codes);
    at += point.bytes;
  }
  order_marks(codes);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto count =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
  FLOW_CHECK(count >= 0);
  for (const Code code : std::span(codes).first(static_cast<size_t>(count)))
    append_utf8(static_cast<char32_t>(code), out);
}

}  // namespace

std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t ascii = end_of_ascii(text, at);
    // The last ASCII character may compose with the first mark that follows.
    if (ascii > at && ascii < text.size()) --ascii;
    out += text.substr(at, ascii - at);
    const auto* const begin = text.data() + std::min(ascii + 1, text.size());
    const auto* const end = std::find_if(begin, text.data() + text.size(), [](char byte) {
      return static_cast<unsigned char>(byte) < 0x80;
    });
    at = static_cast<size_t>(end - text.data());
    append_composed(text.substr(ascii, at - ascii), out);
  }
  return out;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace flow::data
