// Rules of the language that are easier to check on tokens than on the tree.
#include "compiler/yaml/token_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/display.h"

namespace flow::yaml {
namespace {

Span span_of(int32_t id, const Token& token) { return {id, token.begin, token.end}; }

/// Behind the parenthesis that closes the one at `open`; 0 when none does on its line, or nearby.
uint32_t end_of_parentheses(std::string_view text, size_t open) {
  constexpr size_t kLongest = 1000;
  const std::string_view nearby = text.substr(0, open + kLongest);
  int depth = 0;
  for (size_t at = open; at < nearby.size() && nearby[at] != '\n'; ++at) {
    if (nearby[at] == '(') ++depth;
    if (nearby[at] == ')' && --depth == 0) return static_cast<uint32_t>(at + 1);
  }
  return 0;
}

/// The parenthesis of the first `$(` or `$env(` in the text at or behind `from`, or npos.
size_t find_expression(std::string_view text, size_t from) {
  const size_t open = std::min(text.find("$(", from), text.find("$env(", from));
  return open == text.npos ? open : text.find('(', open);
}

bool may_hold_any_space(const Token& token) {
  return is_quoted(token) || token.kind == TokenKind::kBlockText ||
         token.kind == TokenKind::kComment;
}

/// The name of a non-ASCII character that looks like a space, or like nothing; else null.
const char* false_space(uint32_t code) {
  if (code == 0xA0 || code == 0x202F) return "no-break space";
  if (code == 0x3000) return "ideographic space";
  if ((code >= 0x2000 && code <= 0x200A) || code == 0x205F) return "typographic space";
  if (code == 0x200B || code == 0x2060 || code == 0xFEFF) return "zero-width space";
  return nullptr;
}

/// The offset of the token's first such character, or of its end.
uint32_t find_false_space(std::string_view text, const Token& token) {
  uint32_t at = token.begin;
  while (at < token.end) {
    const Character character = character_at(text, at);
    if (false_space(character.code)) break;
    at += character.bytes;
  }
  return std::min(at, token.end);
}

std::string on_other_lines(size_t count, const char* what) {
  return fmt::format("{} other line{} {}", count, count == 1 ? " also contains" : "s also contain",
                     what);
}

bool is_content(const Token& token) {
  return token.kind != TokenKind::kComment && token.kind != TokenKind::kDirective &&
         token.kind != TokenKind::kDocumentStart && token.kind != TokenKind::kDocumentEnd;
}

/// A marker behind content, or content behind the end marker; else null.
const Token* second_document(const std::vector<Token>& tokens) {
  bool content = false, ended = false;
  for (const Token& token : tokens) {
    if (token.kind == TokenKind::kDocumentStart && content) return &token;
    if (token.kind == TokenKind::kDocumentEnd) ended = content;
    if (!is_content(token)) continue;
    if (ended) return &token;
    content = true;
  }
  return nullptr;
}

}  // namespace

std::vector<Span> split_expressions(std::string_view text, int32_t id,
                                    const std::vector<Token>& tokens) {
  std::vector<Span> splits;
  for (const Token& token : tokens) {
    if (token.kind != TokenKind::kPlain || !token.in_flow) continue;
    if (!splits.empty() && token.begin < splits.back().end) continue;
    const std::string_view piece = text.substr(0, token.end);
    for (size_t open = find_expression(piece, token.begin); open != piece.npos;) {
      const uint32_t end = end_of_parentheses(text, open);
      if (end > token.end) splits.push_back({id, token.begin, end});
      if (end == 0 || end > token.end) break;
      open = find_expression(piece, end);
    }
  }
  return splits;
}

void report_splits(const Sources& sources, const std::vector<Span>& splits, Diags& diags) {
  for (const Span& split : splits)
    diags.error(Diagnosis::kSplitExpression, split, "a comma splits this unquoted expression")
        .with_hint(fmt::format("quote it: `\"{}\"`", sources.text(split)));
}

bool check_tabs(std::string_view text, int32_t id, const std::vector<Token>& tokens, Diags& diags) {
  auto token = tokens.begin();
  uint32_t first = 0;
  size_t lines = 0, end_of_line = 0;
  for (size_t tab = text.find('\t'); tab != text.npos; tab = text.find('\t', tab + 1)) {
    while (token != tokens.end() && token->end <= tab) ++token;
    if (token != tokens.end() && token->begin <= tab && may_hold_any_space(*token)) continue;
    if (lines > 0 && tab < end_of_line) continue;
    if (++lines == 1) first = static_cast<uint32_t>(tab);
    end_of_line = std::min(text.find('\n', tab), text.size());
  }
  if (lines == 0) return false;
  Diag& diag =
      diags.error(Diagnosis::kTab, {id, first, first + 1}, "unsupported tab outside quoted text");
  if (lines > 1) diag.with_note(on_other_lines(lines - 1, "tabs"));
  diag.with_hint("use spaces; in double quotes, write a tab as `\\t`");
  return true;
}

bool check_false_spaces(std::string_view text, int32_t id, const std::vector<Token>& tokens,
                        Diags& diags) {
  Diag* diag = nullptr;
  size_t others = 0;
  int line = 0;
  for (const Token& token : tokens) {
    if (may_hold_any_space(token) || token.line == line) continue;
    const uint32_t at = find_false_space(text, token);
    if (at == token.end) continue;
    line = token.line;
    if (diag) {
      ++others;
      continue;
    }
    const Character character = character_at(text, at);
    diag = &diags.error(
        Diagnosis::kFalseSpace, {id, at, at + character.bytes},
        fmt::format("unsupported {} outside quoted text", false_space(character.code)));
    diag->with_hint(fmt::format(
        "use a plain space; in double quotes, write this one as `\\u{:04x}`", character.code));
  }
  if (others > 0) diag->with_note(on_other_lines(others, "such spaces"));
  return diag != nullptr;
}

void check_directives(int32_t id, const std::vector<Token>& tokens, Diags& diags) {
  for (const Token& token : tokens)
    if (token.kind == TokenKind::kDirective)
      diags.error(Diagnosis::kYamlSyntax, span_of(id, token), "unsupported YAML directive")
          .with_hint("delete the line");
}

bool check_one_document(int32_t id, const std::vector<Token>& tokens, Diags& diags) {
  const Token* second = second_document(tokens);
  if (!second) return false;
  diags.error(Diagnosis::kSecondDocument, span_of(id, *second), "unexpected second document")
      .with_hint("move the second document to another file");
  return true;
}

}  // namespace flow::yaml
