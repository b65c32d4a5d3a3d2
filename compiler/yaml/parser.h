// Declares the parts of the parser. Tokens of the YAML text provide the ends that yaml-cpp does not
// report; they yield the spans of values and explain syntax errors such as "end of map not found".
// The tree is built from the events of yaml-cpp. Other functions report YAML that job files do not
// support, such as lists without brackets: in `{perm: 2, 0, 1}`, YAML reads 0 and 1 as keys. `text`
// is always the text of the source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/source/source.h"
#include "compiler/yaml/tree.h"

namespace flow::yaml {

enum class TokenKind {
  kPlain,         // one line of unquoted text
  kDoubleQuoted,  // including the quotes
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
  kReserved,       // begins with @, % or a backtick
  kDirective,      // a line that begins with %
  kDocumentStart,  // ---
  kDocumentEnd     // ...
};

struct Token {
  TokenKind kind = TokenKind::kPlain;
  uint32_t begin = 0, end = 0;
  int line = 1;    // line of `begin`; the first line is 1
  int column = 0;  // column of `begin`, in bytes
  bool first_on_line = false;
  bool in_flow = false;  // inside braces or brackets
  bool closed = true;    // false for quoted text without a closing quote
};

/// Splits any text into tokens. Never fails.
std::vector<Token> tokens_of(std::string_view text);

/// Returns the token that begins at `offset`, or null.
const Token* token_at(const std::vector<Token>& tokens, uint32_t offset);

bool is_quoted(const Token& token);

/// Reports the mistake that most likely made the parser stop at `offset`.
void explain_syntax_error(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                          uint32_t offset, Diags& diags);

/// The result of parsing a text.
struct Parsed {
  Node root;
  bool empty = true;          // there is no value at all
  bool rest = false;          // there is more text after the first document
  uint32_t rest_offset = 0;   // the offset of that text
  bool too_deep = false;      // too many nested levels; the last of `diags` reports it
  bool syntax_error = false;  // the parser stopped
  uint32_t error_offset = 0;  // the offset where it stopped
  std::vector<Span> pieces;   // meaningless values that are pieces of `splits`
  std::vector<Diag> diags;    // errors in the part that was read
};

/// Builds the tree of the first document of source `id`. `splits` contains unquoted expressions
/// that commas split. The caller reports them; their pieces are not reported.
Parsed build_tree(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                  const std::vector<Span>& splits);

/// The hint for anchors and aliases.
inline constexpr const char* kUseVariable =
    "declare the value once under `vars:` and write `$name` where you use it";

/// Returns true if the text is empty, or consists of digits, signs, `.` and `e` with at least one
/// digit.
bool is_number_like(std::string_view text);

Diag tag_error(Span span, std::string_view text);
Diag anchor_error(Span span, std::string_view text);
Diag alias_error(Span span, std::string_view text);
Diag merge_key_error(Span span);
Diag complex_key_error(Span span);
Diag duplicate_key_error(Span span, std::string_view key, Span first);
/// Returns the error for `key: null`, at the span of the word.
Diag null_value_error(Span span, std::string_view word, std::string_view key);
/// Returns the error for `key:`, at the span of the key.
Diag empty_value_error(Span span, std::string_view key, bool in_braces);
Diag empty_item_error(Span span);
/// Returns the error for a colon without a key before it, or for `~` or `null` as a key.
Diag empty_key_error(Span span, std::string_view text);
/// Returns the error for a key without a colon, or without a space after the colon, such as
/// "filters:32".
Diag missing_colon_error(Span span, std::string_view key);
/// Returns the error for `perm: 2,0,1` in braces, where YAML reads a key after each comma. `list`
/// is the corrected text, "2, 0, 1", and `written` the text in the file.
Diag missing_brackets_error(Span span, std::string_view key, std::string_view list,
                            std::string_view written);
/// Returns the offset of the colon in a text such as "filters:32", or npos.
size_t colon_inside(std::string_view key);
Diag nesting_error(Span span, size_t deepest);

/// Appends `key`, a number at `span` that YAML has read as a key, to `value`. `value` is the number
/// before the comma, or a list that an earlier call has made of it (`begun`). Returns false without
/// a change if either is something else.
bool take_into_list(Node& value, bool begun, std::string_view key, Span span);

/// Returns the text of such a list, such as "2, 0, 1".
std::string text_of_items(const Node& list);

}  // namespace flow::yaml
