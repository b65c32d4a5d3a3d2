// Rules of the language that the pieces of a text show better than its tree.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/yaml/tokens.h"

namespace flow::yaml {

/// Unquoted `$(...)` and `$env(...)` in braces and brackets that a comma takes apart.
std::vector<Span> split_expressions(std::string_view text, int32_t id,
                                    const std::vector<Token>& tokens);
void report_splits(const Sources& sources, const std::vector<Span>& splits, Diags& diags);

/// Reports the first tab outside quoted text, block text and comments, and how many lines have
/// others. True where there is one.
bool check_tabs(std::string_view text, int32_t id, const std::vector<Token>& tokens, Diags& diags);

/// Reports the first character outside quoted text, block text and comments that looks like a space
/// and is part of a word. True where there is one.
bool check_false_spaces(std::string_view text, int32_t id, const std::vector<Token>& tokens,
                        Diags& diags);

/// Reports lines that begin with `%`.
void check_directives(int32_t id, const std::vector<Token>& tokens, Diags& diags);

/// Reports where a second document begins. True where there is one.
bool check_one_document(int32_t id, const std::vector<Token>& tokens, Diags& diags);

}  // namespace flow::yaml
