// Markdown as far as our documents use it: for the terminal (`flowc help`) and for man pages.
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
  std::string text;       // Markdown within a line, or the code itself
  std::string mark = {};  // kItem: "-" or "1."
  std::vector<std::vector<std::string>> rows = {};  // kTable: the first has the column titles
};

/// Headings, paragraphs, lists, fenced code and tables. HTML comments and images are left out.
std::vector<Block> parse_markdown(std::string_view text);

/// A stretch of text within a block.
struct Inline {
  enum class Style { kPlain, kCode, kBold, kItalic };
  Style style;
  std::string text;
};

/// Code, emphasis, and the texts of links.
std::vector<Inline> parse_inline(std::string_view text);

/// A row as the head of a list: its first cell, and those in the middle in parentheses. The last
/// cell is what is said of it.
std::string row_head(const Block& table, size_t row);

/// A table's cell: bars would end it.
std::string markdown_cell(std::string_view text);

/// The anchor of a heading, as GitHub makes it: "Item of `also`" -> "item-of-also".
std::string heading_anchor(std::string_view heading);

/// Text for a terminal of that many columns. `color`: with bold and underlined text.
std::string to_terminal(const std::vector<Block>& blocks, size_t columns, bool color);

/// The body of a man page: headings of level 2 are its sections.
std::string to_man(const std::vector<Block>& blocks);

}  // namespace flow::cli
