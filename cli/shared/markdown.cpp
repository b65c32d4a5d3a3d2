// Reads Markdown line by line.
#include "cli/shared/markdown.h"

#include <algorithm>
#include <cctype>

#include "cli/shared/reports.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

size_t indentation(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

/// Returns the length of the mark of a list item, including the following blank: "- ", "12. ".
/// Returns 0 if there is no mark.
size_t mark_length(std::string_view text) {
  if (text.starts_with("- ") || text.starts_with("* ")) return 2;
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
  return digits > 0 && text.substr(digits).starts_with(". ") ? digits + 2 : 0;
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  std::string cell;
  bool in_code = false;
  for (size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cell += line[++i];
    } else if (line[i] == '|' && !in_code) {
      cells.push_back(trimmed(cell));
      cell.clear();
    } else {
      if (line[i] == '`') in_code = !in_code;
      cell += line[i];
    }
  }
  return cells;
}

/// Returns true if the line separates the head of a table, such as "| --- | ---: |".
bool is_rule(std::string_view line) {
  return line.find('-') != line.npos && line.find_first_not_of("|-: ") == line.npos;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(split(text, '\n')) {}

  std::vector<Block> parse() {
    for (at_ = 0; at_ < lines_.size(); ++at_) read_line();
    return std::move(blocks_);
  }

 private:
  void read_line() {
    const std::string& line = lines_[at_];
    const size_t indent = indentation(line);
    const std::string_view text = std::string_view(line).substr(indent);
    if (text.empty()) {
      ended_ = true;
    } else if (indent >= 4 && ended_ && !in_list()) {
      read_indented_code();
    } else if (text.starts_with("```")) {
      read_code(indent);
    } else if (text.starts_with("<!--")) {
      while (lines_[at_].find("-->") == std::string::npos && at_ + 1 < lines_.size()) ++at_;
    } else if (text.starts_with("![") || text.starts_with("<")) {
      ended_ = true;  // a picture
    } else if (const size_t level = text.find_first_not_of('#');
               level > 0 && level < 7 && level < text.size() && text[level] == ' ') {
      add({Block::Kind::kHeading, static_cast<int>(level), trimmed(text.substr(level))});
    } else if (text.starts_with('|')) {
      read_table();
    } else if (const size_t mark = mark_length(text); mark > 0) {
      add({Block::Kind::kItem, static_cast<int>(indent / 2), trimmed(text.substr(mark)),
           trimmed(text.substr(0, mark))});
      ended_ = false;
    } else {
      read_text(text, indent);
    }
  }

  /// Returns true inside a list. Indented lines continue the list item above them.
  bool in_list() const {
    return !blocks_.empty() &&
           (blocks_.back().kind == Block::Kind::kItem || blocks_.back().level > 0) &&
           blocks_.back().kind != Block::Kind::kHeading;
  }

  void add(Block block) {
    blocks_.push_back(std::move(block));
    ended_ = true;
  }

  /// Reads a line that continues the paragraph or the item above it, or begins a paragraph.
  void read_text(std::string_view text, size_t indent) {
    if (!ended_ && !blocks_.empty()) {
      blocks_.back().text += ' ' + trimmed(text);
      return;
    }
    const bool in_item =
        indent >= 2 && !blocks_.empty() && blocks_.back().kind != Block::Kind::kHeading;
    add({Block::Kind::kParagraph, in_item ? static_cast<int>(indent / 2) : 0, trimmed(text)});
    ended_ = false;
  }

  void read_code(size_t indent) {
    Block code{Block::Kind::kCode, static_cast<int>(indent / 2), {}};
    while (++at_ < lines_.size() && !trimmed(lines_[at_]).starts_with("```")) {
      const std::string& line = lines_[at_];
      code.text += line.substr(std::min(indent, indentation(line))) + '\n';
    }
    add(std::move(code));
  }

  void read_indented_code() {
    Block code{Block::Kind::kCode, 0, {}};
    for (; at_ < lines_.size(); ++at_) {
      const std::string& line = lines_[at_];
      if (indentation(line) < 4 && !trimmed(line).empty()) break;
      code.text += line.substr(std::min<size_t>(4, line.size())) + '\n';
    }
    --at_;
    while (code.text.ends_with("\n\n")) code.text.pop_back();
    add(std::move(code));
  }

  void read_table() {
    Block table{Block::Kind::kTable, 0, {}};
    for (; at_ < lines_.size() && lines_[at_].starts_with('|'); ++at_)
      if (!is_rule(lines_[at_])) table.rows.push_back(cells_of(lines_[at_]));
    --at_;
    add(std::move(table));
  }

  const std::vector<std::string> lines_;
  size_t at_ = 0;
  bool ended_ = true;  // true if the next line of text begins a block
  std::vector<Block> blocks_;
};

}  // namespace

std::vector<Block> parse_markdown(std::string_view text) { return Parser(text).parse(); }

std::vector<Inline> parse_inline(std::string_view text) {
  std::vector<Inline> parts;
  std::string plain;
  const auto end_plain = [&] {
    if (!plain.empty()) parts.push_back({Inline::Style::kPlain, std::move(plain)});
    plain.clear();
  };
  /// Takes the text between two of these marks.
  const auto take = [&](std::string_view mark, Inline::Style style) {
    const size_t close = text.find(mark, mark.size());
    if (close == text.npos || close == mark.size()) return false;
    end_plain();
    parts.push_back({style, std::string(text.substr(mark.size(), close - mark.size()))});
    text.remove_prefix(close + mark.size());
    return true;
  };
  const auto at_word_start = [&] { return plain.empty() || !std::isalnum(plain.back()); };
  while (!text.empty()) {
    if (text[0] == '`' && take(text.starts_with("``") ? "``" : "`", Inline::Style::kCode)) continue;
    if (text.starts_with("**") && take("**", Inline::Style::kBold)) continue;
    if (text[0] == '*' && text.size() > 1 && text[1] != ' ' && at_word_start() &&
        take("*", Inline::Style::kItalic))
      continue;
    if (text[0] == '[') {
      const size_t close = text.find("]("), end = text.find(')', close);
      if (close != text.npos && end != text.npos && text.find('[', 1) > close) {
        end_plain();
        for (Inline& part : parse_inline(text.substr(1, close - 1)))
          parts.push_back(std::move(part));
        text.remove_prefix(end + 1);
        continue;
      }
    }
    if (text[0] == '\\' && text.size() > 1 && std::ispunct(static_cast<unsigned char>(text[1])))
      text.remove_prefix(1);
    plain += text[0];
    text.remove_prefix(1);
  }
  end_plain();
  return parts;
}

std::string row_head(const Block& table, size_t row) {
  const std::vector<std::string>& cells = table.rows[row];
  std::string about;
  for (size_t i = 1; i + 1 < cells.size(); ++i) {
    if (cells[i].empty()) continue;
    const bool fallback = table.rows[0][i] == "default" && cells[i] != "required";
    about += (about.empty() ? "" : "; ") + (fallback ? "default " + cells[i] : cells[i]);
  }
  return cells[0] + (about.empty() ? "" : "  (" + about + ")");
}

std::string markdown_cell(std::string_view text) {
  return replaced(text, {{'|', "\\|"}, {'\n', " "}});
}

std::string heading_anchor(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ')
      anchor += '-';
  }
  return anchor;
}

}  // namespace flow::cli
