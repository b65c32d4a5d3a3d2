// Writes Markdown as the macros of man(7), and as plain text that fits a terminal.
#include <algorithm>
#include <cctype>

#include "cli/shared/markdown.h"
#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

/// Escapes characters that have a special meaning in troff.
std::string literal(std::string_view text) {
  return replaced(text, {{'\\', "\\e"},
                         {'-', "\\-"},
                         {'^', "\\(ha"},
                         {'~', "\\(ti"},
                         {'`', "\\(ga"},
                         {'\'', "\\(aq"}});
}

std::string marked(std::string_view text) {
  std::string out;
  for (const Inline& part : parse_inline(text)) {
    const char* font = part.style == Inline::Style::kPlain    ? ""
                       : part.style == Inline::Style::kItalic ? "\\fI"
                                                              : "\\fB";
    out += font + literal(part.text) + (*font ? "\\fR" : "");
  }
  // A dot at the beginning of a line would begin a troff request.
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
  return '"' + replaced(text, {{'"', "\\(dq"}}) + '"';
}

/// Writes each row as a tagged paragraph: its first cell, the middle cells in parentheses, and the
/// last cell.
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

constexpr size_t kCodeIndent = 4;

std::string blanks(size_t count) { return std::string(count, ' '); }

/// A word as it is sent to a terminal, and its width in columns.
struct Word {
  std::string shown;
  size_t width;
};

std::string painted(const Inline& part, const std::string& text, bool color) {
  if (!color || part.style == Inline::Style::kPlain) return text;
  return (part.style == Inline::Style::kItalic ? "\033[4m" : "\033[1m") + text + "\033[0m";
}

std::vector<Word> words_of(std::string_view text, bool color) {
  std::vector<Word> words;
  bool joined = false;  // true if the next piece continues the previous word
  for (const Inline& part : parse_inline(text)) {
    const bool code = part.style == Inline::Style::kCode;
    const std::string marked = code && !color ? '`' + part.text + '`' : part.text;
    const std::vector<std::string> pieces = split(marked, ' ');
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) joined = false;
      if (pieces[i].empty()) continue;
      const std::string shown = painted(part, escaped(pieces[i]), color);
      const size_t width = static_cast<size_t>(width_of(escaped(pieces[i])));
      if (joined && !words.empty()) {
        words.back().shown += shown;
        words.back().width += width;
      } else {
        words.push_back({shown, width});
      }
      joined = true;
    }
  }
  return words;
}

/// Fills lines of at most `columns` columns. The first line begins with `first`, and the others
/// begin with `indent` blanks.
std::string filled(std::string_view text, const Word& first, size_t indent, size_t columns,
                   bool color) {
  std::string lines = first.shown;
  size_t at = first.width;
  bool begun = false;
  for (const Word& word : words_of(text, color)) {
    if (begun && at + 1 + word.width > columns) {
      lines += '\n' + blanks(indent);
      at = indent;
      begun = false;
    }
    if (begun) lines += ' ';
    at += word.width + (begun ? 1 : 0);
    lines += word.shown;
    begun = true;
  }
  return lines + '\n';
}

std::string filled(std::string_view text, const std::string& first, size_t columns, bool color) {
  const auto width = static_cast<size_t>(width_of(first));
  return filled(text, {first, width}, width, columns, color);
}

/// Returns the text on one line of any length.
std::string on_a_line(std::string_view text, bool color) {
  std::string line = filled(text, "", std::string::npos / 2, color);
  line.pop_back();
  return line;
}

size_t width_of_cell(const std::string& text) {
  size_t width = 0;
  for (const Word& word : words_of(text, false)) width += word.width + (width > 0 ? 1 : 0);
  return width;
}

/// Lists the rows of a table for a terminal that is too narrow for columns: the first cell, the
/// middle cells in parentheses, and the last cell below.
std::string stacked_table(const Block& table, size_t columns, bool color) {
  std::string text;
  for (size_t row = 1; row < table.rows.size(); ++row) {
    const std::vector<std::string>& cells = table.rows[row];
    text += filled(row_head(table, row), {"  ", 2}, 6, columns, color);
    if (cells.size() > 1 && !cells.back().empty())
      text += filled(cells.back(), blanks(6), columns, color);
  }
  return text;
}

std::string table_text(const Block& table, size_t columns, bool color) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : table.rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], width_of_cell(row[i]));
    }
  if (widths.empty()) return {};
  size_t before = 2;  // the width of the columns before the last one
  for (size_t i = 0; i + 1 < widths.size(); ++i) before += widths[i] + 2;
  constexpr size_t kRoom = 30;  // the least readable width of the last column
  if (before + std::min(widths.back(), kRoom) > columns)
    return stacked_table(table, columns, color);
  std::string text;
  for (const std::vector<std::string>& row : table.rows) {
    if (std::ranges::all_of(row, [](const std::string& cell) { return cell.empty(); })) continue;
    std::string line = "  ";
    for (size_t i = 0; i + 1 < row.size(); ++i)
      line += on_a_line(row[i], color) + blanks(widths[i] - width_of_cell(row[i]) + 2);
    text += filled(row.back(), {line, before}, before, columns, color);
  }
  return text;
}

std::string code_text(const Block& code) {
  const std::string indent = blanks(kCodeIndent + 2 * static_cast<size_t>(code.level));
  std::string text;
  for (const std::string& line : split(code.text, '\n'))
    text += line.empty() ? "\n" : indent + escaped(line) + '\n';
  if (text.ends_with("\n\n")) text.pop_back();
  return text;
}

std::string block_text(const Block& block, size_t columns, bool color) {
  const size_t indent = 2 * static_cast<size_t>(block.level);
  switch (block.kind) {
    case Block::Kind::kHeading: {
      const std::string line = on_a_line(block.text, false);
      if (color) return "\033[1m" + line + "\033[0m\n";
      if (block.level > 2) return line + '\n';
      return line + '\n' +
             std::string(static_cast<size_t>(width_of(line)), block.level == 1 ? '=' : '-') + '\n';
    }
    case Block::Kind::kParagraph:
      return filled(block.text, blanks(indent), columns, color);
    case Block::Kind::kItem: {
      return filled(block.text, blanks(indent) + block.mark + ' ', columns, color);
    }
    case Block::Kind::kCode:
      return code_text(block);
    case Block::Kind::kTable:
      return table_text(block, columns, color);
  }
  return {};
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

std::string to_terminal(const std::vector<Block>& blocks, size_t columns, bool color) {
  std::string text;
  const Block* before = nullptr;
  for (const Block& block : blocks) {
    const bool list =
        before && before->kind == Block::Kind::kItem && block.kind == Block::Kind::kItem;
    if (before && !list) text += '\n';
    text += block_text(block, columns, color);
    before = &block;
  }
  return text;
}

}  // namespace flow::cli
