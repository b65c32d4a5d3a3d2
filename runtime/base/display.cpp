// The characters of a user's text: decoding, width and escapes.
#include "runtime/base/display.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace flow {

namespace {

struct Range {
  uint32_t first, last;
  bool contains(uint32_t code) const { return first <= code && code <= last; }
};

constexpr Range kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},  {0x3041, 0xA4CF},
                           {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},  {0xFE30, 0xFE6F},
                           {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F},
                           {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
constexpr Range kZeroWidth[] = {
    {0x0300, 0x036F}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};
constexpr Range kUnprintable[] = {{0x0000, 0x001F}, {0x007F, 0x009F}, {0x061C, 0x061C},
                                  {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069},
                                  {0xFEFF, 0xFEFF}, {0xFFFE, 0xFFFF}};

template <size_t N>
bool any_contains(const Range (&ranges)[N], uint32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [code](const Range& range) { return range.contains(code); });
}

/// Returns the number of bytes of a character from its first byte, or 0 if no character begins with
/// this byte.
uint32_t length_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

std::string escape_of(const Character& character, char byte) {
  if (!character.valid) return fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  switch (character.code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (character.code < 0x20) return fmt::format("\\x{:02x}", character.code);
  return fmt::format("\\u{:04x}", character.code);
}

}  // namespace

Character character_at(std::string_view text, size_t offset) {
  const Character invalid = {static_cast<unsigned char>(text[offset]), 1, false};
  const uint32_t length = length_by(static_cast<unsigned char>(text[offset]));
  if (length == 1) return {static_cast<unsigned char>(text[offset]), 1, true};
  if (length == 0 || length > text.size() - offset) return invalid;
  uint32_t code = static_cast<unsigned char>(text[offset]) & (0xFFu >> (length + 1));
  for (uint32_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[offset + i]);
    if ((byte & 0xC0) != 0x80) return invalid;
    code = code << 6 | (byte & 0x3Fu);
  }
  constexpr Range kSurrogates = {0xD800, 0xDFFF};
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF || kSurrogates.contains(code)) return invalid;
  return {code, length, true};
}

int width_of(const Character& character) {
  if (!character.valid || character.code < 0x300) return 1;
  if (any_contains(kZeroWidth, character.code)) return 0;
  return any_contains(kWide, character.code) ? 2 : 1;
}

int width_of(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    width += width_of(character);
    at += character.bytes;
  }
  return width;
}

bool is_unprintable(const Character& character) {
  return !character.valid || any_contains(kUnprintable, character.code);
}

namespace {

/// Escapes unprintable characters except the line ends for which `keeps(at)` is true.
template <typename Keeps>
std::string escaped_but(std::string_view text, Keeps keeps) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t plain = at;  // Most texts are long and need no escapes.
    while (plain < text.size() && text[plain] >= ' ' && text[plain] <= '~') ++plain;
    out += text.substr(at, plain - at);
    at = plain;
    if (at == text.size()) break;
    const Character character = character_at(text, at);
    const bool stays = !is_unprintable(character) || (text[at] == '\n' && keeps(at));
    out += stays ? std::string(text.substr(at, character.bytes)) : escape_of(character, text[at]);
    at += character.bytes;
  }
  return out;
}

}  // namespace

std::string escaped(std::string_view text) {
  return escaped_but(text, [](size_t) { return false; });
}

std::string escaped_lines(std::string_view text) {
  return escaped_but(text, [](size_t) { return true; });
}

std::string escaped_message(std::string_view text) {
  return escaped_but(text, [&](size_t at) { return text.substr(at + 1).starts_with("  "); });
}

namespace {

/// Returns the ASCII character that a typographic character looks like, or 0.
char ascii_look_alike(uint32_t code) {
  constexpr std::pair<std::u32string_view, char> kLookAlikes[] = {
      {U"\u201C\u201D\u201E\u201F\u00AB\u00BB\u2033\uFF02", '"'},
      {U"\u2018\u2019\u201A\u201B\u2032\u00B4\uFF07", '\''},
      {U"\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uFE63", '-'},
      {U"\u00D7\u2217\u22C5\u00B7", '*'},
      {U"\u00F7\u2215\u2044", '/'}};
  for (const auto& [codes, ascii] : kLookAlikes)
    if (codes.find(static_cast<char32_t>(code)) != codes.npos) return ascii;
  constexpr uint32_t kFullWidth = 0xFF01, kLastFullWidth = 0xFF5E;  // full-width "!" and "~"
  return code < kFullWidth || code > kLastFullWidth ? '\0'
                                                    : static_cast<char>(code - kFullWidth + '!');
}

}  // namespace

std::string with_ascii_punctuation(std::string_view text) {
  std::string ascii;
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (const char c = ascii_look_alike(character.code))
      ascii += c;
    else
      ascii += text.substr(at, character.bytes);
    at += character.bytes;
  }
  return ascii;
}

}  // namespace flow
