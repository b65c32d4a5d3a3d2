// Errors for YAML that job files do not support, and lists without brackets: in `{perm: 2, 0, 1}`
// YAML takes 0 and 1 for keys. `text` is that of the source.
#pragma once

#include <string>
#include <string_view>

#include "compiler/diag/diag.h"
#include "compiler/yaml/tree.h"

namespace flow::yaml {

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
