// Typographic characters that look like ASCII.
#include "runtime/base/look_alikes.h"

#include <cstdint>
#include <utility>

#include "runtime/base/display.h"

namespace flow {
namespace {

/// The ASCII character that a typographic one looks like, or 0.
char ascii_look_alike(uint32_t code) {
  constexpr std::pair<std::u32string_view, char> kLookAlikes[] = {
      {U"\u201C\u201D\u201E\u201F\u00AB\u00BB\u2033\uFF02", '"'},
      {U"\u2018\u2019\u201A\u201B\u2032\u00B4\uFF07", '\''},
      {U"\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uFE63", '-'},
      {U"\u00D7\u2217\u22C5\u00B7", '*'},
      {U"\u00F7\u2215\u2044", '/'}};
  for (const auto& [codes, ascii] : kLookAlikes)
    if (codes.find(static_cast<char32_t>(code)) != codes.npos) return ascii;
  constexpr uint32_t kFullWidth = 0xFF01, kLastFullWidth = 0xFF5E;  // of "!" and "~"
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
