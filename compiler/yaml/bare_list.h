// Lists without brackets: in `{perm: 2, 0, 1}` YAML takes 0 and 1 for keys.
#pragma once

#include <string>
#include <string_view>

#include "compiler/yaml/tree.h"

namespace flow::yaml {

/// Appends `key`, a number that YAML took for a key at `span`, to `value`: the number before the
/// comma, or the list already begun from it (`begun`). False, and nothing changes, where either is
/// something else.
bool take_into_list(Node& value, bool begun, std::string_view key, Span span);

/// "2, 0, 1", of such a list.
std::string text_of_items(const Node& list);

}  // namespace flow::yaml
