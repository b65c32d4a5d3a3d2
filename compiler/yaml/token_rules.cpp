// Rules of the language that the pieces of a text show better than its tree.
#include "compiler/yaml/token_rules.h"

#include <fmt/format.h>

#include <algorithm>

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

bool may_hold_tabs(const Token& token) {
  return is_quoted(token) || token.kind == TokenKind::kBlockText ||
         token.kind == TokenKind::kComment;
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
    if (token != tokens.end() && token->begin <= tab && may_hold_tabs(*token)) continue;
    if (lines > 0 && tab < end_of_line) continue;
    if (++lines == 1) first = static_cast<uint32_t>(tab);
    end_of_line = std::min(text.find('\n', tab), text.size());
  }
  if (lines == 0) return false;
  Diag& diag = diags.error(Diagnosis::kTab, {id, first, first + 1}, "a tab outside quoted text");
  if (lines > 1)
    diag.with_note(
        fmt::format("{} other line{} tabs too", lines - 1, lines == 2 ? " has" : "s have"));
  diag.with_hint("use spaces; in double quotes a tab can be written as `\\t`");
  return true;
}

void check_directives(int32_t id, const std::vector<Token>& tokens, Diags& diags) {
  for (const Token& token : tokens)
    if (token.kind == TokenKind::kDirective)
      diags
          .error(Diagnosis::kYamlSyntax, span_of(id, token),
                 "directives are not part of the language")
          .with_hint("delete the line");
}

bool check_one_document(int32_t id, const std::vector<Token>& tokens, Diags& diags) {
  const Token* second = second_document(tokens);
  if (!second) return false;
  diags.error(Diagnosis::kSecondDocument, span_of(id, *second), "a second document begins here")
      .with_hint("a job file is one document: put the second into a file of its own");
  return true;
}

}  // namespace flow::yaml
