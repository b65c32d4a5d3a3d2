// UTF-8 text: validation, code points, the character classes of Unicode 15.0 that tokenizers use,
// and the normal form NFC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flow::data {

/// Returns the offset of the first byte that is not part of valid UTF-8, or nothing if the whole
/// text is valid.
std::optional<size_t> find_invalid_utf8(std::string_view text);

/// A code point and the number of its bytes in UTF-8.
struct CodePoint {
  char32_t code = 0;
  uint32_t bytes = 1;
};

/// Returns the code point at `offset`. REQUIRES: offset < text.size(), and the text is valid.
inline CodePoint code_point_at(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const auto tail = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | tail(1), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

/// Returns the number of code points. REQUIRES: the text is valid.
size_t count_code_points(std::string_view text);

/// Returns the code points. REQUIRES: the text is valid.
std::u32string code_points_of(std::string_view text);

/// Appends a code point in UTF-8. REQUIRES: code is a Unicode scalar value.
void append_utf8(char32_t code, std::string& text);

/// Returns a code point as messages show it: "`é` (U+00E9)".
std::string shown_code_point(char32_t code);

/// The classes of code points: the general categories L and N, and the property White_Space.
enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };

/// Returns the class of a code point in Unicode 15.0.
CharacterClass class_of(char32_t code);

/// Returns the text in the normal form NFC. REQUIRES: the text is valid.
std::string nfc(std::string_view text);

/// Returns a text without the byte order mark at its start.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace flow::data
