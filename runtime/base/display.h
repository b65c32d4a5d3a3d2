// User's text on a terminal: how wide each character is, what must not get there as it is, and what
// looks like ASCII.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flow {

/// One character of UTF-8 text. A byte that begins none is one of its own, not `valid`.
struct Character {
  uint32_t code = 0;
  uint32_t bytes = 1;
  bool valid = true;
};

/// The character at `offset`. REQUIRES: offset < text.size().
Character character_at(std::string_view text, size_t offset);

/// Terminal columns: 2 for East Asian wide characters, 0 for combining ones.
int width_of(const Character& character);
int width_of(std::string_view text);

/// Must this not reach a terminal? Control characters, bytes that are no UTF-8, and characters
/// that reorder the text around them.
bool is_unprintable(const Character& character);

/// The text with what is unprintable written as escapes: "\n", "\x1b", "\u202e". Text that is
/// escaped stays as it is, and JSON stays the same JSON.
std::string escaped(std::string_view text);

/// The same for a text of several lines: line ends stay.
std::string escaped_lines(std::string_view text);

/// The same for a message: a line end stays only before two blanks, as the lists in our messages
/// have them. Text of a user cannot begin a line.
std::string escaped_message(std::string_view text);

/// The text with ASCII in place of typographic quotes, dashes, minus signs, multiplication signs
/// and full-width punctuation, as word processors and web pages write them: "1e\u22123" -> "1e-3".
std::string with_ascii_punctuation(std::string_view text);

}  // namespace flow
