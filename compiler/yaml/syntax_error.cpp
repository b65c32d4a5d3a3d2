// Explains syntax errors. The parser reports only the place where the text can no longer be YAML,
// which is often far from the mistake. Each function below recognizes one kind of mistake. The
// first function that finds its mistake before that place explains the error.
#include "compiler/yaml/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/base/display.h"
#include "runtime/base/error.h"

namespace flow::yaml {
namespace {

class Explainer {
 public:
  Explainer(std::string_view text, int32_t id, const std::vector<Token>& tokens, uint32_t offset,
            Diags& diags)
      : text_(text), id_(id), tokens_(tokens), offset_(offset), diags_(diags) {}

  void explain() {
    if (behind_a_value() || quote() || bracket() || bracket_in_text() || alias() || reserved() ||
        escape() || dash() || second_colon() || missing_colon() || indentation() || key_at_dash())
      return;
    const Token& token = tokens_[index_at_offset()];
    report(Diagnosis::kYamlSyntax, span_of(token), "invalid YAML")
        .with_hint("quote text that contains YAML's special characters");
  }

 private:
  Span span_of(const Token& token) const { return {id_, token.begin, token.end}; }
  std::string_view text_of(const Token& token) const {
    return text_.substr(token.begin, token.end - token.begin);
  }
  Diag& report(Diagnosis diagnosis, Span span, std::string message) {
    return diags_.error(diagnosis, span, std::move(message));
  }

  /// Returns the index of the last token that begins no later than the place where the parser
  /// stopped.
  size_t index_at_offset() const {
    const auto after =
        std::upper_bound(tokens_.begin(), tokens_.end(), offset_,
                         [](uint32_t offset, const Token& token) { return offset < token.begin; });
    return after == tokens_.begin() ? 0 : static_cast<size_t>(after - tokens_.begin()) - 1;
  }
  bool is(size_t i, TokenKind kind) const { return i < tokens_.size() && tokens_[i].kind == kind; }
  bool is_text(size_t i) const {
    return i < tokens_.size() && (tokens_[i].kind == TokenKind::kPlain || is_quoted(tokens_[i]));
  }
  /// Returns true for a key, which is text followed by a colon.
  bool is_key(size_t i) const { return is_text(i) && is(i + 1, TokenKind::kColon); }
  /// Returns the index of the last token before i that is not a comment, or i.
  size_t before(size_t i) const {
    size_t j = i;
    while (j > 0)
      if (tokens_[--j].kind != TokenKind::kComment) return j;
    return i;
  }
  /// Reports quoted text that continues to the end of the file.
  bool quote() {
    if (tokens_.back().closed) return false;
    const Token& token = tokens_.back();
    report(Diagnosis::kUnclosed, {id_, token.begin, token.begin + 1},
           fmt::format("unclosed quote {}", text_[token.begin]))
        .with_hint(fmt::format("close it with {}", text_[token.begin]));
    return true;
  }

  /// Reports braces and brackets that close nothing, that do not match the opening one, or that are
  /// not closed before the next key.
  bool bracket() {
    std::vector<const Token*> open;
    int line_indent = 0, outer_indent = 0;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.first_on_line) line_indent = token.column;
      if (token.kind == TokenKind::kOpen) {
        if (open.empty()) outer_indent = line_indent;
        open.push_back(&token);
      } else if (token.kind == TokenKind::kClose) {
        if (open.empty()) return token.begin <= offset_ && closes_nothing(token);
        if (!match(*open.back(), token)) return closes_another(token, *open.back());
        open.pop_back();
      } else if (!open.empty() && token.first_on_line && is_key(i) &&
                 token.column <= outer_indent) {
        return not_closed(*open.back(), &token);
      }
    }
    return !open.empty() && not_closed(*open.back(), nullptr);
  }

  bool match(const Token& open, const Token& close) const {
    return (text_[open.begin] == '{') == (text_[close.begin] == '}');
  }
  bool closes_nothing(const Token& close) {
    report(Diagnosis::kUnclosed, span_of(close), fmt::format("unmatched `{}`", text_of(close)))
        .with_hint("delete it");
    return true;
  }
  bool closes_another(const Token& close, const Token& open) {
    report(Diagnosis::kUnclosed, span_of(close),
           fmt::format("`{}` does not match `{}`", text_of(close), text_of(open)))
        .label(span_of(open), "opened here")
        .with_hint(fmt::format("close `{}` with `{}` first", text_of(open),
                               text_[open.begin] == '{' ? '}' : ']'));
    return true;
  }
  bool not_closed(const Token& open, const Token* next_key) {
    Diag& diag =
        report(Diagnosis::kUnclosed, span_of(open), fmt::format("unclosed `{}`", text_of(open)));
    for (const Token& token : tokens_)
      if (token.kind == TokenKind::kComment && token.begin > open.begin &&
          (!next_key || token.begin < next_key->begin) &&
          text_of(token).find_first_of("}]") != std::string_view::npos)
        return comment_hides(token, diag);
    if (next_key) diag.label(span_of(*next_key), "the next key starts here");
    diag.with_hint(fmt::format("close it with `{}`", text_[open.begin] == '{' ? '}' : ']'));
    return true;
  }

  bool comment_hides(const Token& comment, Diag& diag) {
    diag.label(span_of(comment), "this comment contains the closing character")
        .with_hint("quote text that begins with `#`");
    return true;
  }

  /// Reports unquoted text that a bracket or brace ends, such as {type: Tuple[Numpy]}.
  bool bracket_in_text() {
    for (size_t i = 1; i < tokens_.size() && tokens_[i - 1].begin <= offset_; ++i) {
      const Token &text = tokens_[i - 1], &open = tokens_[i];
      if (text.kind != TokenKind::kPlain || open.kind != TokenKind::kOpen || open.begin != text.end)
        continue;
      const size_t behind = text_.find_first_of(" ,]}\t\r\n", end_of_brackets(i));
      const auto end = static_cast<uint32_t>(std::min(behind, text_.size()));
      const std::string_view whole = text_.substr(text.begin, end - text.begin);
      report(Diagnosis::kYamlSyntax, {id_, text.begin, end},
             fmt::format("unquoted text in braces or brackets cannot contain `{}`", text_of(open)))
          .with_hint(hint_for_brackets(whole));
      return true;
    }
    return false;
  }

  /// Returns a hint. Users of shells write `${n}` for `$n`, and `x${n}` for `x$(n)`.
  static std::string hint_for_brackets(std::string_view whole) {
    const size_t dollar = whole.find("${"), close = whole.find('}');
    if (dollar == 0 && close + 1 == whole.size())
      return fmt::format("write a variable as `${0}`, or `$env({0})` for an environment variable",
                         whole.substr(2, whole.size() - 3));
    if (dollar == std::string_view::npos || close == std::string_view::npos || close < dollar)
      return fmt::format("quote it: `\"{}\"`", whole);
    return fmt::format("write `\"{}$({}){}\"`", whole.substr(0, dollar),
                       whole.substr(dollar + 2, close - dollar - 2), whole.substr(close + 1));
  }

  /// Returns the offset after the bracket that closes token i, or after token i if no bracket on
  /// its line does.
  uint32_t end_of_brackets(size_t i) const {
    int depth = 0;
    for (size_t j = i; j < tokens_.size() && tokens_[j].line == tokens_[i].line; ++j) {
      if (tokens_[j].kind == TokenKind::kOpen) ++depth;
      if (tokens_[j].kind == TokenKind::kClose && --depth == 0) return tokens_[j].end;
    }
    return tokens_[i].end;
  }

  /// Reports text directly after a closing quote, brace or bracket.
  bool behind_a_value() {
    for (size_t i = 1; i < tokens_.size() && tokens_[i].begin <= offset_; ++i) {
      const Token& value = tokens_[i - 1];
      const Token& rest = tokens_[i];
      const bool ended = is_quoted(value) || value.kind == TokenKind::kClose;
      if (!ended || rest.first_on_line) continue;
      if (rest.in_flow && (is_quoted(rest) || rest.kind == TokenKind::kOpen))
        return report_missing_comma(span_of(rest));
      if (rest.kind != TokenKind::kPlain && !is_quoted(rest)) continue;
      if (is_quoted(value)) return behind_a_quote(value, rest);
      report(Diagnosis::kYamlSyntax, span_of(rest),
             fmt::format("unexpected text after the closing `{}`", text_of(value)));
      return true;
    }
    return false;
  }

  bool behind_a_quote(const Token& value, const Token& rest) {
    const std::string quote(1, text_[value.begin]);
    if (rest.line != value.line) {
      report(Diagnosis::kUnclosed, {id_, value.begin, value.begin + 1},
             fmt::format("unclosed quote {} on this line", quote))
          .label({id_, value.end - 1, value.end}, "the quoted text continues to here")
          .with_hint(fmt::format("close it with {}", quote));
      return true;
    }
    report(Diagnosis::kYamlSyntax, span_of(rest), "unexpected text after the closing quote")
        .with_hint(quote == "'" ? "inside single quotes, write a single quote twice: `'it''s'`"
                                : "inside double quotes, write a double quote as `\\\"`");
    return true;
  }

  bool alias() {
    size_t i = index_at_offset();
    if (is(i, TokenKind::kComma)) i = before(i);  // the parser stops after a lone star
    const Token& token = tokens_[i];
    if (token.kind != TokenKind::kAlias) return false;
    Diag& diag = report(Diagnosis::kAnchor, span_of(token),
                        fmt::format("the unquoted `{}` is a YAML alias", text_of(token)));
    const std::string_view text = text_of(token);
    if (text == "*" || text.find_first_of("*/.", 1) != text.npos)
      diag.with_hint(fmt::format("quote a pattern that begins with `*`: `\"{}\"`", text));
    else
      diag.with_hint(fmt::format("{}; quote a pattern: `\"{}\"`", kUseVariable, text));
    return true;
  }

  bool reserved() {
    const Token& token = tokens_[index_at_offset()];
    if (token.kind != TokenKind::kReserved) return false;
    report(Diagnosis::kYamlSyntax, span_of(token),
           fmt::format("unquoted text cannot begin with {}", text_[token.begin]))
        .with_hint(fmt::format("quote it: `\"{}\"`", text_of(token)));
    return true;
  }

  /// Reports escapes that double-quoted text does not support.
  bool escape() {
    const Token& token = tokens_[index_at_offset()];
    if (token.kind != TokenKind::kDoubleQuoted || offset_ >= token.end) return false;
    // The parser stops after the escape.
    const size_t backslash = text_.substr(0, offset_).rfind('\\');
    if (backslash == text_.npos || backslash < token.begin) return false;
    const uint32_t size = 1 + character_at(text_, backslash + 1).bytes;
    const auto begin = static_cast<uint32_t>(backslash);
    report(Diagnosis::kYamlSyntax, {id_, begin, begin + size},
           fmt::format("unknown escape `{}` in double quotes", text_.substr(begin, size)))
        .with_hint("use single quotes for a plain backslash");
    return true;
  }

  /// Reports `key: - item`, and list items among keys.
  bool dash() {
    const size_t i = index_at_offset();
    if (!is(i, TokenKind::kDash)) return false;
    if (!tokens_[i].first_on_line) {
      report(Diagnosis::kYamlSyntax, span_of(tokens_[i]),
             "unexpected list item on the same line as its key")
          .with_hint("write each item on its own line, or write the list as `[a, b]`");
      return true;
    }
    report(Diagnosis::kIndentation, span_of(tokens_[i]), "unexpected list item; expected a key")
        .with_hint("indent the items further than their key");
    return true;
  }

  /// Reports a second colon in a value, as in `a: b: c`, or a missing comma in braces.
  bool second_colon() {
    const size_t i = colon_at_offset();
    if (i < 2 || !is_text(i - 1)) return false;
    const size_t value = before(i - 1);
    const bool same_place = tokens_[value].in_flow == tokens_[i].in_flow;
    if (!same_place) return false;
    if (tokens_[i].in_flow) return missing_comma(i, value);
    if (tokens_[value].kind != TokenKind::kColon || tokens_[value].line != tokens_[i].line)
      return false;
    report(Diagnosis::kYamlSyntax, span_of(tokens_[i]), "unexpected second colon in the value")
        .with_hint("quote the text, or write a mapping in braces: `{key: value}`");
    return true;
  }

  /// Returns the index of the colon where the parser stopped or directly after it, or 0.
  size_t colon_at_offset() const {
    const size_t i = index_at_offset();
    if (is(i, TokenKind::kColon)) return i;
    return is(i + 1, TokenKind::kColon) ? i + 1 : 0;
  }

  bool missing_comma(size_t colon, size_t value) {
    const Token& text = tokens_[colon - 1];
    const size_t space = text_of(text).find_last_of(" \t");
    if (text.kind == TokenKind::kPlain && space != std::string_view::npos &&
        tokens_[value].kind == TokenKind::kColon)
      return report_missing_comma({id_, text.begin + static_cast<uint32_t>(space) + 1, text.end});
    if (is_text(value) || is(value, TokenKind::kClose)) return report_missing_comma(span_of(text));
    return false;
  }
  bool report_missing_comma(Span key) {
    report(Diagnosis::kYamlSyntax, key,
           fmt::format("missing comma before `{}`", text_.substr(key.begin, key.end - key.begin)))
        .with_hint("separate entries in braces and brackets by commas");
    return true;
  }

  /// Reports a line of text above a key that lacks its colon or the space after the colon.
  bool missing_colon() {
    const size_t colon = colon_at_offset();
    if (colon < 2 || !is_key(colon - 1) || tokens_[colon].in_flow) return false;
    const size_t above = before(colon - 1);
    const Token& text = tokens_[above];
    if (above == colon - 1 || text.kind != TokenKind::kPlain || !text.first_on_line) return false;
    diags_.add(missing_colon_error(span_of(text), text_of(text)));
    return true;
  }

  /// Reports a key in a column that contains no keys of the mappings around it.
  bool indentation() {
    size_t i = index_at_offset();
    while (i > 0 && !tokens_[i].first_on_line) --i;
    if (!is_key(i) && !is(i, TokenKind::kDash)) return false;
    const Token& key = tokens_[i];
    const Token* above = nullptr;
    size_t behind_above = 0;  // the first token after its colon and comments
    // A key or dash for each mapping or list that contains the place.
    std::vector<const Token*> open;
    for (size_t j = 0; j < i; ++j) {
      const Token& other = tokens_[j];
      if (other.in_flow || !(is_key(j) || other.kind == TokenKind::kDash)) continue;
      while (!open.empty() && open.back()->column >= other.column) open.pop_back();
      open.push_back(&other);
      if (is_key(j)) above = &other, behind_above = j + 2;
    }
    const auto same_column = [&](const Token* other) { return other->column == key.column; };
    if (!above || std::any_of(open.begin(), open.end(), same_column)) return false;
    while (behind_above < i && is(behind_above, TokenKind::kComment)) ++behind_above;
    // The key belongs to the value of `above`.
    if (key.column > above->column && behind_above >= i) return false;
    return report_indentation(key, *above);
  }

  bool report_indentation(const Token& key, const Token& above) {
    const std::string message =
        key.column > above.column
            ? fmt::format("`{}` is indented further than `{}`, which already has a value",
                          text_of(key), text_of(above))
            : fmt::format("`{}` does not align with any key above", text_of(key));
    report(Diagnosis::kIndentation, span_of(key), message)
        .label(span_of(above),
               fmt::format("`{}` starts in column {}", text_of(above), above.column + 1))
        .with_hint("align the keys of a mapping in one column");
    return true;
  }

  /// Reports a key in the column of a dash, such as `eval:` below `- train:`.
  bool key_at_dash() {
    const size_t i = index_at_offset();
    if (!is_key(i) || !tokens_[i].first_on_line) return false;
    const Token& key = tokens_[i];
    for (size_t j = i; j-- > 0;) {
      const Token& above = tokens_[j];
      const bool inside = above.in_flow || above.kind == TokenKind::kComment ||
                          !above.first_on_line || above.column > key.column;
      if (inside) continue;
      return above.kind == TokenKind::kDash && above.column == key.column &&
             report_key_at_dash(key, above);
    }
    return false;
  }

  bool report_key_at_dash(const Token& key, const Token& dash) {
    report(Diagnosis::kIndentation, span_of(key),
           fmt::format("unexpected key `{}` in the column of a list item", text_of(key)))
        .label(span_of(dash), "the list item")
        .with_hint(fmt::format("delete the `-`, or indent `{}` to make it a key of the item",
                               text_of(key)));
    return true;
  }

  std::string_view text_;
  int32_t id_;
  const std::vector<Token>& tokens_;
  uint32_t offset_;
  Diags& diags_;
};

}  // namespace

void explain_syntax_error(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                          uint32_t offset, Diags& diags) {
  FLOW_CHECK(!tokens.empty(), "the parser rejects a text of {} bytes", sources[id].text().size());
  Explainer(sources[id].text(), id, tokens, offset, diags).explain();
}

}  // namespace flow::yaml
