// A user's text on a terminal: the width of each character, the characters that must be escaped,
// and those that look like ASCII.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flow {

/// A character of UTF-8 text. A byte that is not part of a valid character is a Character with
/// `valid` false.
struct Character {
  uint32_t code = 0;
  uint32_t bytes = 1;
  bool valid = true;
};

/// Returns the character at `offset`. REQUIRES: offset < text.size().
Character character_at(std::string_view text, size_t offset);

/// Returns the number of terminal columns: 2 for East Asian wide characters, 0 for combining ones.
int width_of(const Character& character);
int width_of(std::string_view text);

/// Returns true for characters that must not reach a terminal: control characters, bytes that are
/// not UTF-8, and characters that reorder the text around them.
bool is_unprintable(const Character& character);

/// Returns the text with its unprintable characters as escapes: "\n", "\x1b", "\u202e". Text that
/// is already escaped does not change, and JSON keeps its meaning.
std::string escaped(std::string_view text);

/// Escapes a text of several lines, whose line ends are kept.
std::string escaped_lines(std::string_view text);

/// Escapes a message. A line end is only kept before two blanks, with which the items of lists in
/// messages begin. Text of a user therefore cannot begin a line.
std::string escaped_message(std::string_view text);

/// Returns the text with ASCII in place of the typographic quotes, dashes, minus signs,
/// multiplication signs and full-width punctuation of word processors and web pages: "1e\u22123" ->
/// "1e-3".
std::string with_ascii_punctuation(std::string_view text);

}  // namespace flow
