// Errors for YAML that job files do not support. `text` is that of the source.
#pragma once

#include <string_view>

#include "compiler/diag/diag.h"

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

}  // namespace flow::yaml
