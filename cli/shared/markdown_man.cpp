// Markdown as the macros of man(7).
#include <algorithm>
#include <cctype>

#include "cli/shared/markdown.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

/// Text that troff takes for itself is escaped.
std::string literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '^')
      out += "\\(ha";
    else if (c == '~')
      out += "\\(ti";
    else if (c == '`')
      out += "\\(ga";
    else if (c == '\'')
      out += "\\(aq";
    else
      out += c;
  }
  return out;
}

std::string marked(std::string_view text) {
  std::string out;
  for (const Inline& part : parse_inline(text)) {
    const char* font = part.style == Inline::Style::kPlain    ? ""
                       : part.style == Inline::Style::kItalic ? "\\fI"
                                                              : "\\fB";
    out += font + literal(part.text) + (*font ? "\\fR" : "");
  }
  // A dot that begins a line would begin a request.
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string plain(std::string_view text) {
  std::string out;
  for (const Inline& part : parse_inline(text)) out += part.text;
  return out;
}

std::string macro_argument(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return '"' + out + '"';
}

/// Each row is a tagged paragraph: its first cell, those in the middle in parentheses, then the
/// last.
std::string table_macros(const Block& table) {
  std::string text;
  for (size_t row = 1; row < table.rows.size(); ++row) {
    const std::vector<std::string>& cells = table.rows[row];
    text += ".TP\n" + marked(row_head(table, row)) + '\n';
    if (cells.size() > 1) text += marked(cells.back()) + '\n';
  }
  return text;
}

std::string code_macros(const std::string& code) {
  std::string text = ".IP\n.nf\n.ft CW\n";
  for (const std::string& line : split(trimmed(code), '\n'))
    text += (line.starts_with('.') || line.starts_with('\'') ? "\\&" : "") + literal(line) + '\n';
  return text + ".ft\n.fi\n";
}

}  // namespace

std::string to_man(const std::vector<Block>& blocks) {
  std::string text;
  for (const Block& block : blocks) switch (block.kind) {
      case Block::Kind::kHeading:
        if (block.level <= 2)
          text += ".SH " + macro_argument(literal(upper(plain(block.text)))) + '\n';
        else
          text += ".SS " + macro_argument(literal(plain(block.text))) + '\n';
        break;
      case Block::Kind::kParagraph:
        text += ".PP\n" + marked(block.text) + '\n';
        break;
      case Block::Kind::kItem:
        text += ".IP \"" + (block.mark == "-" ? "\\(bu" : block.mark) + "\" 3\n" +
                marked(block.text) + '\n';
        break;
      case Block::Kind::kCode:
        text += code_macros(block.text);
        break;
      case Block::Kind::kTable:
        text += table_macros(block);
        break;
    }
  return text;
}

}  // namespace flow::cli
