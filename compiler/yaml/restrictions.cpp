// Reports YAML that job files do not support, and lists without brackets.
#include "compiler/yaml/parser.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::yaml {
namespace {

Diag error(Diagnosis diagnosis, Span span, std::string message) {
  return {diagnosis, Severity::kError, span, std::move(message)};
}

/// Returns the number in "(3" or "3)", which are pieces of `kernel_size: (3, 3)`, or in "3".
/// Returns an empty text for ")", and nothing for any other text.
std::optional<std::string_view> number_in(std::string_view piece) {
  if (piece.starts_with('(')) piece.remove_prefix(1);
  if (piece.ends_with(')')) piece.remove_suffix(1);
  if (!is_number_like(piece)) return {};
  return piece;
}

/// Turns a number into a list that contains it. Returns false for other values.
bool begin_list(Node& value) {
  const auto first = value.is_scalar() ? number_in(value.scalar) : std::nullopt;
  if (!first || first->empty() || value.quoted) return false;
  value = list_node({scalar_node(*first, value.span)}, value.span);
  return true;
}

}  // namespace

bool is_number_like(std::string_view text) {
  return text.find_first_not_of("0123456789.-+e") == text.npos &&
         (text.empty() || text.find_first_of("0123456789") != text.npos);
}

Diag tag_error(Span span, std::string_view text) {
  return error(Diagnosis::kTag, span, fmt::format("unsupported YAML tag `{}`", text))
      .with_hint("delete it, because the key determines the type; quote text that begins with `!`");
}

Diag anchor_error(Span span, std::string_view text) {
  return error(Diagnosis::kAnchor, span, fmt::format("unsupported YAML anchor `{}`", text))
      .with_hint(kUseVariable);
}

Diag alias_error(Span span, std::string_view text) {
  return error(Diagnosis::kAnchor, span, fmt::format("unsupported YAML alias `{}`", text))
      .with_hint(kUseVariable);
}

Diag merge_key_error(Span span) {
  return error(Diagnosis::kAnchor, span, "unsupported YAML merge key").with_hint(kUseVariable);
}

Diag complex_key_error(Span span) {
  return error(Diagnosis::kComplexKey, span,
               "invalid key; expected a name on one line, followed by a colon")
      .with_hint("write `key: value`; quote text that begins with a bracket, a brace or `? `");
}

Diag duplicate_key_error(Span span, std::string_view key, Span first) {
  return error(Diagnosis::kDuplicateKey, span, fmt::format("duplicate key `{}`", key))
      .label(first, "first set here")
      .with_hint("delete or rename one of them");
}

Diag null_value_error(Span span, std::string_view word, std::string_view key) {
  return error(Diagnosis::kEmptyValue, span,
               fmt::format("`{}` is `{}`; expected a value", key, word))
      .with_hint("write a value, or delete the key");
}

Diag empty_value_error(Span span, std::string_view key, bool in_braces) {
  return error(Diagnosis::kEmptyValue, span, fmt::format("`{}` has no value", key))
      .with_hint(in_braces ? "write a value, or delete the key"
                           : "indent its value below it, or delete the key");
}

Diag empty_item_error(Span span) {
  return error(Diagnosis::kEmptyValue, span, "empty list item")
      .with_hint("delete it, or write `\"\"` for an empty string");
}

Diag empty_key_error(Span span, std::string_view text) {
  if (text == ":") return error(Diagnosis::kComplexKey, span, "missing key before the colon");
  if (text == ",") return error(Diagnosis::kComplexKey, span, "missing key before the comma");
  return error(Diagnosis::kComplexKey, span, fmt::format("invalid key `{}`", text));
}

size_t colon_inside(std::string_view key) {
  const size_t colon = key.find(':');
  return colon == 0 || colon + 1 == key.size() ? key.npos : colon;
}

Diag missing_colon_error(Span span, std::string_view key) {
  const size_t colon = colon_inside(key);
  if (const std::string ascii = with_ascii_punctuation(key);
      colon == key.npos && colon_inside(ascii) != ascii.npos)
    return missing_colon_error(span, ascii);
  if (colon == key.npos) {
    Diag diag = error(Diagnosis::kMissingColon, span, fmt::format("missing colon after `{}`", key));
    if (const size_t equals = key.find('='); equals != key.npos && equals > 0)
      return diag.with_hint(fmt::format("write `{}: {}`", trimmed(key.substr(0, equals)),
                                        trimmed(key.substr(equals + 1))));
    if (!key.empty() && is_number_like(key))
      return diag.with_hint(fmt::format("write its key: `KEY: {}`", key));
    return diag.with_hint(fmt::format("write `{}: VALUE`", key));
  }
  return error(Diagnosis::kMissingColon, span,
               fmt::format("missing space after the colon in `{}`", key))
      .with_hint(fmt::format("write `{}: {}`", key.substr(0, colon), key.substr(colon + 1)));
}

Diag missing_brackets_error(Span span, std::string_view key, std::string_view list,
                            std::string_view written) {
  Diag diag =
      error(Diagnosis::kMissingColon, span, fmt::format("`{}` is a list without brackets", key));
  const std::string hint = fmt::format("write `{}: [{}]`", key, list);
  const size_t comma = written.find_first_not_of("0123456789");
  const bool fraction = comma != 0 && comma != written.npos && written[comma] == ',' &&
                        written.find_first_not_of("0123456789", comma + 1) == written.npos;
  return diag.with_hint(fraction ? fmt::format("{}, or a decimal point: `{}.{}`", hint,
                                               written.substr(0, comma), written.substr(comma + 1))
                                 : hint);
}

Diag nesting_error(Span span, size_t deepest) {
  return error(Diagnosis::kNesting, span,
               fmt::format("lists and mappings nested more than {} deep", deepest));
}

bool take_into_list(Node& value, bool begun, std::string_view key, Span span) {
  const auto number = number_in(key);
  if (!number || (!begun && !begin_list(value))) return false;
  value.span.end = span.end;
  if (!number->empty()) value.items.push_back(scalar_node(*number, span));  // `(3,)` has one number
  return true;
}

std::string text_of_items(const Node& list) {
  std::string text;
  for (const Node& item : list.items) text += (text.empty() ? "" : ", ") + item.scalar;
  return text;
}

}  // namespace flow::yaml
