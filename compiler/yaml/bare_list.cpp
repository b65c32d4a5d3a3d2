// Lists without brackets.
#include "compiler/yaml/bare_list.h"

#include <optional>
#include <utility>

#include "compiler/yaml/restrictions.h"

namespace flow::yaml {
namespace {

/// The number in "(3" or "3)", as `kernel_size: (3, 3)` has them, or in "3"; empty in ")". Nothing
/// where there is other text.
std::optional<std::string_view> number_in(std::string_view piece) {
  if (piece.starts_with('(')) piece.remove_prefix(1);
  if (piece.ends_with(')')) piece.remove_suffix(1);
  if (!is_number_like(piece)) return {};
  return piece;
}

/// Turns a number into a list of it; false for other values.
bool begin_list(Node& value) {
  const auto first = value.is_scalar() ? number_in(value.scalar) : std::nullopt;
  if (!first || first->empty() || value.quoted) return false;
  value = list_node({scalar_node(*first, value.span)}, value.span);
  return true;
}

}  // namespace

bool take_into_list(Node& value, bool begun, std::string_view key, Span span) {
  const auto number = number_in(key);
  if (!number || (!begun && !begin_list(value))) return false;
  value.span.end = span.end;
  if (!number->empty()) value.items.push_back(scalar_node(*number, span));  // `(3,)` has one
  return true;
}

std::string text_of_items(const Node& list) {
  std::string text;
  for (const Node& item : list.items) text += (text.empty() ? "" : ", ") + item.scalar;
  return text;
}

}  // namespace flow::yaml
