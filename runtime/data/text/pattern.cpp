// Scans text for the pieces of two fixed regular expressions.
#include "runtime/data/text/pattern.h"

#include <array>
#include <cstdint>
#include <utility>

#include "runtime/data/text/utf8.h"

namespace flow::data {

namespace {

using enum CharacterClass;

constexpr std::pair<std::string_view, Pattern> kExpressions[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     Pattern::kGpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Pattern::kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Pattern::kCl100k},
};

constexpr std::array<CharacterClass, 128> kAsciiClasses = [] {
  std::array<CharacterClass, 128> classes{};
  for (size_t code = 0; code < classes.size(); ++code) {
    const size_t lower = code | 0x20;
    if (code == ' ' || (code >= 9 && code <= 13)) classes[code] = kSpace;
    if (lower >= 'a' && lower <= 'z') classes[code] = kLetter;
    if (code >= '0' && code <= '9') classes[code] = kNumber;
  }
  return classes;
}();

/// A character of a text. At the end of the text, `bytes` is 0 and the class is kSpace, because the
/// patterns do not distinguish the end from a space.
struct Scanned {
  CharacterClass type = kSpace;
  uint32_t bytes = 0;
};

Scanned scan(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {kAsciiClasses[byte], 1};
  const CodePoint point = code_point_at(text, at);
  return {class_of(point.code), point.bytes};
}

/// Returns the end of the longest run of characters of one class.
size_t end_of_run(std::string_view text, size_t at, CharacterClass type) {
  for (Scanned next = scan(text, at); next.bytes > 0 && next.type == type; next = scan(text, at))
    at += next.bytes;
  return at;
}

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

/// Returns the length of an English contraction ('s 't 're 've 'm 'll 'd), or 0.
size_t contraction(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto lower = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  };
  const char first = lower(1), second = lower(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  constexpr std::string_view kLongS = "\xC5\xBF";  // U+017F, whose case folding is `s`
  return any_case && text.substr(1).starts_with(kLongS) ? 1 + kLongS.size() : 0;
}

/// Matches \s+(?!\S)|\s+ at a run of white space that ends at `end`: all of it at the end of the
/// text, else all but its last character, which belongs to the next piece if there are several.
size_t end_of_spaces(std::string_view text, size_t at, size_t end) {
  if (end == text.size()) return end;
  size_t last = end - 1;
  while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
  return last > at ? last : end;
}

size_t end_of_gpt2(std::string_view text, size_t at) {
  if (const size_t length = contraction(text.substr(at), false)) return at + length;
  const size_t first = at + (text[at] == ' ');
  const Scanned next = scan(text, first);
  if (next.type != kSpace) return end_of_run(text, first + next.bytes, next.type);
  return end_of_spaces(text, at, end_of_run(text, first, kSpace));
}

size_t end_of_digits(std::string_view text, size_t at) {
  for (int digits = 0; digits < 3; ++digits) {
    const Scanned next = scan(text, at);
    if (next.bytes == 0 || next.type != kNumber) break;
    at += next.bytes;
  }
  return at;
}

size_t end_of_cl100k(std::string_view text, size_t at) {
  if (const size_t length = contraction(text.substr(at), true)) return at + length;
  const Scanned first = scan(text, at);
  if (first.type == kLetter) return end_of_run(text, at, kLetter);
  if (first.type == kNumber) return end_of_digits(text, at);
  const size_t second = at + first.bytes;
  if (!is_line_end(text[at]) && scan(text, second).type == kLetter)
    return end_of_run(text, second, kLetter);
  const size_t symbols = at + (text[at] == ' ');
  if (scan(text, symbols).type == kOther) {
    size_t end = end_of_run(text, symbols, kOther);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  const size_t end = end_of_run(text, at, kSpace);
  const size_t line_end = text.substr(at, end - at).find_last_of("\r\n");
  return line_end != text.npos ? at + line_end + 1 : end_of_spaces(text, at, end);
}

}  // namespace

std::optional<Pattern> pattern_of(std::string_view expression) {
  for (const auto& [text, pattern] : kExpressions)
    if (text == expression) return pattern;
  return {};
}

size_t end_of_piece(Pattern pattern, std::string_view text, size_t at) {
  return pattern == Pattern::kGpt2 ? end_of_gpt2(text, at) : end_of_cl100k(text, at);
}

}  // namespace flow::data
