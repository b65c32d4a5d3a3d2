// Splits YAML text into tokens.
#include "compiler/yaml/parser.h"

#include <algorithm>

namespace flow::yaml {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_break(char c) { return c == '\n' || c == '\r'; }
bool is_flow_indicator(char c) { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}'; }

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) line_begin_ = at_ = 3;
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\n')
        next_line();
      else if (is_blank(text_[at_]) || text_[at_] == '\r')
        ++at_;
      else
        token();
    }
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }
  bool ends_word(char c) const { return is_blank(c) || is_break(c); }

  void next_line() {
    line_begin_ = ++at_;
    ++line_;
    first_on_line_ = true;
  }

  void add(TokenKind kind, size_t end, bool closed = true) {
    tokens_.push_back({kind, static_cast<uint32_t>(at_), static_cast<uint32_t>(end), line_,
                       static_cast<int>(at_ - line_begin_), first_on_line_, depth_ > 0, closed});
    const std::string_view piece = text_.substr(0, end);
    for (size_t i = piece.find('\n', at_); i != piece.npos; i = piece.find('\n', i + 1)) {
      ++line_;
      line_begin_ = i + 1;
    }
    first_on_line_ = false;
    at_ = end;
  }

  size_t end_of_line() const {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    return end > at_ && text_[end - 1] == '\r' ? end - 1 : end;
  }

  /// Returns the end of a word. A word ends at white space and, in braces and brackets, at their
  /// punctuation.
  size_t end_of_word() const {
    size_t end = at_ + 1;
    while (end < text_.size() && !ends_word(text_[end]) &&
           !(depth_ > 0 && is_flow_indicator(text_[end])))
      ++end;
    return end;
  }

  void token() {
    const char c = text_[at_];
    if (at_ == line_begin_ && marker_or_directive()) return;
    if (c == '#' && (first_on_line_ || is_blank(text_[at_ - 1])))
      return add(TokenKind::kComment, end_of_line());
    if (c == '"') return quoted(TokenKind::kDoubleQuoted);
    if (c == '\'') return quoted(TokenKind::kSingleQuoted);
    if (punctuation(c)) return;
    switch (c) {
      case '!':
        return add(TokenKind::kTag, end_of_word());
      case '&':
        return add(TokenKind::kAnchor, end_of_word());
      case '*':
        return add(TokenKind::kAlias, end_of_word());
      case '@':
      case '%':
      case '`':
        return add(TokenKind::kReserved, end_of_word());
      case '|':
      case '>':
        if (depth_ == 0) return block_text();
        break;
      default:
        break;
    }
    plain();
  }

  bool marker_or_directive() {
    if (text_[at_] == '%' && depth_ == 0) {
      add(TokenKind::kDirective, end_of_line());
      return true;
    }
    const std::string_view three = text_.substr(at_, 3);
    if ((three != "---" && three != "...") || !ends_word(peek(3))) return false;
    depth_ = 0;
    add(three == "---" ? TokenKind::kDocumentStart : TokenKind::kDocumentEnd, at_ + 3);
    return true;
  }

  bool punctuation(char c) {
    if (c == '{' || c == '[') {
      add(TokenKind::kOpen, at_ + 1);
      ++depth_;
    } else if (c == '}' || c == ']') {
      depth_ = std::max(depth_ - 1, 0);
      add(TokenKind::kClose, at_ + 1);
    } else if (c == ',' && depth_ > 0) {
      add(TokenKind::kComma, at_ + 1);
    } else if (c == ':' && is_colon()) {
      parent_column_ = key_column();
      add(TokenKind::kColon, at_ + 1);
    } else if (c == '-' && depth_ == 0 && ends_word(peek(1))) {
      parent_column_ = static_cast<int>(at_ - line_begin_);
      add(TokenKind::kDash, at_ + 1);
    } else if (c == '?' && ends_word(peek(1))) {
      add(TokenKind::kQuestion, at_ + 1);
    } else {
      return false;
    }
    return true;
  }

  /// Returns true if the colon ends a key. It does so before white space. In braces, it also does
  /// so before punctuation and, as in JSON, directly after a quoted key.
  bool is_colon() const {
    if (ends_word(peek(1))) return true;
    if (depth_ == 0) return false;
    const bool after_json_key =
        !tokens_.empty() && tokens_.back().end == at_ &&
        (is_quoted(tokens_.back()) || tokens_.back().kind == TokenKind::kClose);
    return is_flow_indicator(peek(1)) || after_json_key;
  }

  int key_column() const {
    if (tokens_.empty() || tokens_.back().line != line_) return static_cast<int>(at_ - line_begin_);
    return tokens_.back().column;
  }

  void quoted(TokenKind kind) {
    const char quote = text_[at_];
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\' && kind == TokenKind::kDoubleQuoted)
        ++i;
      else if (text_[i] == quote && kind == TokenKind::kSingleQuoted && i + 1 < text_.size() &&
               text_[i + 1] == quote)
        ++i;
      else if (text_[i] == quote)
        return add(kind, i + 1);
    }
    add(kind, text_.size(), false);
  }

  /// Reads block text. A line belongs to it if it is blank or indented at least as far as the first
  /// line, which is indented further than the key. An explicit indentation counts from the key.
  void block_text() {
    const std::string_view header = text_.substr(at_, end_of_line() - at_);
    const size_t digit = header.substr(0, 3).find_first_of("123456789");
    int indent = digit == header.npos ? -1 : std::max(parent_column_, 0) + header[digit] - '0';
    size_t end = at_ + std::min(header.find(" #"), header.size());
    size_t begin = at_ + header.size();
    while (begin < text_.size() && (begin = text_.find('\n', begin)) != text_.npos) {
      const size_t first = text_.find_first_not_of(' ', ++begin);
      if (first == text_.npos) break;
      if (is_break(text_[first])) continue;
      const int column = static_cast<int>(first - begin);
      if (column <= parent_column_ || (indent >= 0 && column < indent)) break;
      if (indent < 0) indent = column;
      end = std::min(text_.find('\n', first), text_.size());
      if (text_[end - 1] == '\r') --end;
      begin = end;
    }
    add(TokenKind::kBlockText, end);
  }

  void plain() {
    size_t end = at_, i = at_;
    for (; i < text_.size() && !is_break(text_[i]); ++i) {
      const char c = text_[i];
      if (c == '#' && i > at_ && is_blank(text_[i - 1])) break;
      if (depth_ > 0 && is_flow_indicator(c)) break;
      const char next = i + 1 < text_.size() ? text_[i + 1] : '\n';
      if (c == ':' && (ends_word(next) || (depth_ > 0 && is_flow_indicator(next)))) break;
      if (!is_blank(c)) end = i + 1;
    }
    add(TokenKind::kPlain, std::max(end, at_ + 1));
  }

  std::string_view text_;
  size_t at_ = 0, line_begin_ = 0;
  int line_ = 1;
  int depth_ = 0;  // of braces and brackets
  // The column of the innermost key or dash that block text may belong to.
  int parent_column_ = -1;
  bool first_on_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) { return Tokenizer(text).run(); }

const Token* token_at(const std::vector<Token>& tokens, uint32_t offset) {
  const auto found =
      std::lower_bound(tokens.begin(), tokens.end(), offset,
                       [](const Token& token, uint32_t begin) { return token.begin < begin; });
  return found != tokens.end() && found->begin == offset ? &*found : nullptr;
}

bool is_quoted(const Token& token) {
  return token.kind == TokenKind::kDoubleQuoted || token.kind == TokenKind::kSingleQuoted;
}

}  // namespace flow::yaml
