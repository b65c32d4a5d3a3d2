// Parses a text to a tree: checks the text, splits it into tokens, parses it, and reports YAML that
// job files do not support. Some rules of the language are easier to check in the tokens than in
// the tree.
#include "compiler/yaml/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/yaml/parser.h"
#include "runtime/base/display.h"

namespace flow::yaml {
namespace {

/// Returns the size of a source in bytes for a message. The text was read only up to its limit, so
/// the size may be unknown.
std::string size_of(const Source& source) {
  const size_t read = source.text().size();
  std::error_code unknown;
  const uint64_t bytes =
      fs::is_regular_file(source.name(), unknown) ? fs::file_size(source.name(), unknown) : 0;
  if (bytes >= read) return std::to_string(bytes);
  return read == kLargestFile + 1 ? fmt::format("more than {}", kLargestFile)
                                  : std::to_string(read);
}

/// Returns the encoding of the byte order mark if it is not UTF-8, or null.
const char* other_encoding(std::string_view text) {
  using std::string_view_literals::operator""sv;
  if (text.starts_with("\0\0\xFE\xFF"sv) || text.starts_with("\xFF\xFE\0\0"sv)) return "UTF-32";
  if (text.starts_with("\xFE\xFF"sv) || text.starts_with("\xFF\xFE"sv)) return "UTF-16";
  return nullptr;
}

Span span_at(int32_t id, size_t offset, size_t bytes) {
  return {id, static_cast<uint32_t>(offset), static_cast<uint32_t>(offset + bytes)};
}

bool is_allowed(std::string_view text, size_t offset) {
  const char byte = text[offset];
  if (byte == '\r') return offset + 1 < text.size() && text[offset + 1] == '\n';
  return byte == '\t' || byte == '\n' || (static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7F);
}

void report_control_character(Diags& diags, Span span, char byte) {
  Diag& diag = diags.error(
      Diagnosis::kControlCharacter, span,
      fmt::format("unsupported control character \\x{:02x}", static_cast<unsigned char>(byte)));
  if (byte == '\0')
    diag.with_hint("if this is a job file, save it as UTF-8");
  else if (byte == '\r')
    diag.with_hint("end lines with LF or CRLF");
  else
    diag.with_hint("delete it, or write an escape in double quotes, as in `\\x1b`");
}

Span span_of(int32_t id, const Token& token) { return {id, token.begin, token.end}; }

/// Returns the offset after the parenthesis that closes the one at `open`, or 0 if none does so
/// nearby on the same line.
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

/// Returns the offset of the parenthesis of the first `$(` or `$env(` at or after `from`, or npos.
size_t find_expression(std::string_view text, size_t from) {
  const size_t open = std::min(text.find("$(", from), text.find("$env(", from));
  return open == text.npos ? open : text.find('(', open);
}

bool may_hold_any_space(const Token& token) {
  return is_quoted(token) || token.kind == TokenKind::kBlockText ||
         token.kind == TokenKind::kComment;
}

/// Returns the name of a non-ASCII character that looks like a space or is invisible, or null.
const char* false_space(uint32_t code) {
  if (code == 0xA0 || code == 0x202F) return "no-break space";
  if (code == 0x3000) return "ideographic space";
  if ((code >= 0x2000 && code <= 0x200A) || code == 0x205F) return "typographic space";
  if (code == 0x200B || code == 0x2060 || code == 0xFEFF) return "zero-width space";
  return nullptr;
}

/// Returns the offset of the first character of this kind in the token, or the end of the token.
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

/// Returns a document marker after content, or content after an end marker, or null.
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

/// Returns the unquoted `$(...)` and `$env(...)` in braces and brackets that a comma splits.
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

/// Reports the first tab outside quoted text, block text and comments, and the number of other
/// lines with such tabs. Returns true if there is one.
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

/// Reports the first character outside quoted text, block text and comments that looks like a space
/// but is part of a word. Returns true if there is one.
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

/// Reports lines that begin with `%`.
void check_directives(int32_t id, const std::vector<Token>& tokens, Diags& diags) {
  for (const Token& token : tokens)
    if (token.kind == TokenKind::kDirective)
      diags.error(Diagnosis::kYamlSyntax, span_of(id, token), "unsupported YAML directive")
          .with_hint("delete the line");
}

/// Reports the beginning of a second document. Returns true if there is one.
bool check_one_document(int32_t id, const std::vector<Token>& tokens, Diags& diags) {
  const Token* second = second_document(tokens);
  if (!second) return false;
  diags.error(Diagnosis::kSecondDocument, span_of(id, *second), "unexpected second document")
      .with_hint("move the second document to another file");
  return true;
}

/// Reports a text whose top level is not a mapping.
void check_top(const Parsed& parsed, int32_t id, const Sources& sources, const char* how_to_begin,
               Diags& diags) {
  if (parsed.empty) {
    const uint32_t begin = sources[id].line_start(1);
    diags.error(Diagnosis::kEmptyFile, {id, begin, begin}, "the file is empty; expected a mapping")
        .with_hint(how_to_begin);
  } else if (!parsed.root.is_mapping()) {
    diags
        .error(Diagnosis::kNotAMapping, parsed.root.span,
               fmt::format("the file is {}; expected a mapping", name_of(parsed.root.kind)))
        .with_hint(how_to_begin);
  }
}

/// Reports only the syntax error, because earlier errors can be consequences of it.
void report_syntax_error(const Parsed& parsed, const Sources& sources, int32_t id,
                         const std::vector<Token>& tokens, const std::vector<Span>& splits,
                         Diags& diags) {
  if (check_tabs(sources[id].text(), id, tokens, diags)) return;
  if (!splits.empty()) return report_splits(sources, splits, diags);
  explain_syntax_error(sources, id, tokens, parsed.error_offset, diags);
}

}  // namespace

void read_on(File& file, std::string& text, size_t most) {
  constexpr size_t kChunk = size_t{1} << 16;
  while (text.size() < most) {
    const size_t before = text.size(), wanted = std::min(kChunk, most - before);
    text.resize(before + wanted);
    const size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + got);
    if (got < wanted) return;
  }
}

bool check_text(const Sources& sources, int32_t id, Diags& diags) {
  const std::string_view text = sources[id].text();
  if (text.size() > kLargestFile) {
    diags
        .error(Diagnosis::kFileTooLarge, {},
               fmt::format("{} has {} bytes; expected at most {}", sources[id].name(),
                           size_of(sources[id]), kLargestFile))
        .with_hint("move long lists of numbers to a .npy file");
    return false;
  }
  if (const char* encoding = other_encoding(text)) {
    diags
        .error(Diagnosis::kInvalidUtf8, span_at(id, 0, 2),
               fmt::format("the file is {}; expected UTF-8", encoding))
        .with_hint("save it as UTF-8");
    return false;
  }
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid) {
      diags
          .error(Diagnosis::kInvalidUtf8, span_at(id, at, 1),
                 fmt::format("invalid UTF-8 byte \\x{:02x}", static_cast<unsigned char>(text[at])))
          .with_hint("save the file as UTF-8");
      return false;
    }
    if (!is_allowed(text, at)) {
      report_control_character(diags, span_at(id, at, 1), text[at]);
      return false;
    }
    at += character.bytes;
  }
  return true;
}

Node parse(const Sources& sources, int32_t id, Diags& diags, const char* how_to_begin) {
  if (!check_text(sources, id, diags)) return {};
  const std::string_view text = sources[id].text();
  const std::vector<Token> tokens = tokens_of(text);
  if (check_false_spaces(text, id, tokens, diags)) return {};
  const std::vector<Span> splits = split_expressions(text, id, tokens);
  Parsed parsed = build_tree(sources, id, tokens, splits);
  if (!tokens.empty() && !tokens.back().closed) {
    // The parser accepts the end of the file in place of the missing quote.
    parsed.syntax_error = true;
    parsed.error_offset = static_cast<uint32_t>(text.size());
  }
  if (parsed.syntax_error) {
    report_syntax_error(parsed, sources, id, tokens, splits, diags);
    return {};
  }
  if (parsed.too_deep) {
    diags.add(std::move(parsed.diags.back()));
    return {};
  }
  for (Diag& diag : parsed.diags) {
    const Span span = diag.span;
    diags.add(std::move(diag));
    diags.silence(span);
  }
  report_splits(sources, splits, diags);
  for (const Span& piece : parsed.pieces) diags.silence(piece);
  check_tabs(text, id, tokens, diags);
  check_directives(id, tokens, diags);
  const bool second = check_one_document(id, tokens, diags);
  if (parsed.rest && !second && parsed.root.is_mapping())
    diags.error(Diagnosis::kYamlSyntax, {id, parsed.rest_offset, parsed.rest_offset + 1},
                "unexpected text after the top-level mapping");
  check_top(parsed, id, sources, how_to_begin, diags);
  return std::move(parsed.root);
}

}  // namespace flow::yaml
