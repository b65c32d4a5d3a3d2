// The parts of the parser: the tokens of a YAML text, with the ends that yaml-cpp does not report,
// which give the spans of values and explain syntax errors such as "end of map not found"; the tree
// made of yaml-cpp's events; and errors for YAML that job files do not support, such as lists
// without brackets: in `{perm: 2, 0, 1}` YAML takes 0 and 1 for keys. `text` is that of the source.
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

/// What the parser did with a text.
struct Parsed {
  Node root;
  bool empty = true;          // no value at all
  bool rest = false;          // there is more after the first document's value
  uint32_t rest_offset = 0;   // where
  bool too_deep = false;      // too many nested levels; reported by the last of `diags`
  bool syntax_error = false;  // the parser gave up
  uint32_t error_offset = 0;  // where
  std::vector<Span> pieces;   // values that are pieces of `splits`: they have no meaning
  std::vector<Diag> diags;    // of what was read
};

/// Reads the first document of source `id`. `splits`: unquoted expressions that commas split,
/// reported by the caller; their pieces are not reported.
Parsed build_tree(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                  const std::vector<Span>& splits);

/// The hint for anchors and aliases.
inline constexpr const char* kUseVariable =
    "declare the value once under `vars:` and write `$name` where you use it";

/// Empty, or made of digits, signs, `.` and `e`, with at least one digit.
bool is_number_like(std::string_view text);

Diag tag_error(Span span, std::string_view text);
Diag anchor_error(Span span, std::string_view text);
Diag alias_error(Span span, std::string_view text);
Diag merge_key_error(Span span);
Diag complex_key_error(Span span);
Diag duplicate_key_error(Span span, std::string_view key, Span first);
/// `key: null`; the span is that of the word.
Diag null_value_error(Span span, std::string_view word, std::string_view key);
/// `key:`; the span is the key's.
Diag empty_value_error(Span span, std::string_view key, bool in_braces);
Diag empty_item_error(Span span);
/// A colon without a key before it, or `~` and `null` as a key.
Diag empty_key_error(Span span, std::string_view text);
/// A key without a colon, or without a space after it: "filters:32".
Diag missing_colon_error(Span span, std::string_view key);
/// `perm: 2,0,1` in braces, where a key follows each comma; `list`: "2, 0, 1"; `written`: the text
/// in the file.
Diag missing_brackets_error(Span span, std::string_view key, std::string_view list,
                            std::string_view written);
/// The offset of the colon in "filters:32", or npos.
size_t colon_inside(std::string_view key);
Diag nesting_error(Span span, size_t deepest);

/// Appends `key`, a number that YAML took for a key at `span`, to `value`: the number before the
/// comma, or the list already begun from it (`begun`). False, and nothing changes, where either is
/// something else.
bool take_into_list(Node& value, bool begun, std::string_view key, Span span);

/// "2, 0, 1", of such a list.
std::string text_of_items(const Node& list);

}  // namespace flow::yaml
