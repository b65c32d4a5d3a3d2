// The tokens of a YAML text, with the ends that the parser does not report. They give the spans of
// values, and explain syntax errors such as the parser's "end of map not found".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"

namespace flow::yaml {

enum class TokenKind {
  kPlain,         // one line of unquoted text
  kDoubleQuoted,  // with quotes
  kSingleQuoted,
  kBlockText,  // from `|` or `>` to the end of its last line
  kComment,
  kOpen,   // { or [
  kClose,  // } or ]
  kComma,
  kColon,          // after a key
  kDash,           // before a list item
  kQuestion,       // before a key
  kTag,            // !int
  kAnchor,         // &name
  kAlias,          // *name
  kReserved,       // what begins with @, % or a backtick
  kDirective,      // a line that begins with %
  kDocumentStart,  // ---
  kDocumentEnd     // ...
};

struct Token {
  TokenKind kind = TokenKind::kPlain;
  uint32_t begin = 0, end = 0;
  int line = 1;    // of `begin`, from 1
  int column = 0;  // of `begin`, in bytes
  bool first_on_line = false;
  bool in_flow = false;  // inside braces or brackets
  bool closed = true;    // quoted text: there is a closing quote
};

/// Takes any text apart; never fails.
std::vector<Token> tokens_of(std::string_view text);

/// The token that begins at `offset`, or null.
const Token* token_at(const std::vector<Token>& tokens, uint32_t offset);

bool is_quoted(const Token& token);

/// Reports the one mistake that most likely made the parser give up at `offset`.
void explain_syntax_error(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                          uint32_t offset, Diags& diags);

}  // namespace flow::yaml
