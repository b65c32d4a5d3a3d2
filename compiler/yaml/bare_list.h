// Lists without brackets: in `{perm: 2, 0, 1}` YAML takes 0 and 1 for keys.
#pragma once

#include <string>
#include <string_view>

#include "compiler/yaml/tree.h"

namespace flow::yaml {

/// Puts the number that stands as a key at `span` behind `value`: the number before it, or the list
/// that this has `begun` to make. False, and nothing happens, where either is something else.
bool take_into_list(Node& value, bool begun, std::string_view key, Span span);

/// "2, 0, 1", of such a list.
std::string text_of_items(const Node& list);

}  // namespace flow::yaml
