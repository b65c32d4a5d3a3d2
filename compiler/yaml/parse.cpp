// Text -> tree: checks the text, splits it into tokens, parses it, and reports YAML that job files
// do not support.
#include <fmt/format.h>

#include "compiler/yaml/syntax_error.h"
#include "compiler/yaml/text_check.h"
#include "compiler/yaml/token_rules.h"
#include "compiler/yaml/tokens.h"
#include "compiler/yaml/tree.h"
#include "compiler/yaml/tree_builder.h"

namespace flow::yaml {
namespace {

/// Reports a text without a mapping at its top.
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

/// Reports only the syntax error: errors before it can be consequences of it.
void report_syntax_error(const Parsed& parsed, const Sources& sources, int32_t id,
                         const std::vector<Token>& tokens, const std::vector<Span>& splits,
                         Diags& diags) {
  if (check_tabs(sources[id].text(), id, tokens, diags)) return;
  if (!splits.empty()) return report_splits(sources, splits, diags);
  explain_syntax_error(sources, id, tokens, parsed.error_offset, diags);
}

}  // namespace

Node parse(const Sources& sources, int32_t id, Diags& diags, const char* how_to_begin) {
  if (!check_text(sources, id, diags)) return {};
  const std::string_view text = sources[id].text();
  const std::vector<Token> tokens = tokens_of(text);
  if (check_false_spaces(text, id, tokens, diags)) return {};
  const std::vector<Span> splits = split_expressions(text, id, tokens);
  Parsed parsed = build_tree(sources, id, tokens, splits);
  if (!tokens.empty() && !tokens.back().closed) {
    // The parser accepts the end of the file as the missing quote.
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
