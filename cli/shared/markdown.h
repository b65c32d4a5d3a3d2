// The subset of Markdown that the project's documents use, for the terminal (`flowc help`) and for
// man pages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace flow::cli {

struct Block {
  enum class Kind { kHeading, kParagraph, kItem, kCode, kTable };
  Kind kind;
  int level = 0;          // kHeading: 1 to 6; kItem: its indentation in levels, from 0
  std::string text;       // Markdown within a line, or the code
  std::string mark = {};  // kItem: "-" or "1."
  std::vector<std::vector<std::string>> rows = {};  // kTable: the first row has the titles
};

/// Parses headings, paragraphs, lists, fenced code and tables. HTML comments and images are left
/// out.
std::vector<Block> parse_markdown(std::string_view text);

/// A piece of text within a block that has one style.
struct Inline {
  enum class Style { kPlain, kCode, kBold, kItalic };
  Style style;
  std::string text;
};

/// Parses code, emphasis, and the texts of links.
std::vector<Inline> parse_inline(std::string_view text);

/// Returns a row as the head of a list item: its first cell, followed by the middle cells in
/// parentheses. The last cell describes the item and is not included.
std::string row_head(const Block& table, size_t row);

/// Escapes the text for a table cell, because a bar would end the cell.
std::string markdown_cell(std::string_view text);

/// Returns the anchor of a heading as GitHub creates it: "Item of `also`" -> "item-of-also".
std::string heading_anchor(std::string_view heading);

/// Returns the text for a terminal with `columns` columns. `color` adds bold and underlined text.
std::string to_terminal(const std::vector<Block>& blocks, size_t columns, bool color);

/// Returns the body of a man page. Headings of level 2 become its sections.
std::string to_man(const std::vector<Block>& blocks);

}  // namespace flow::cli
