// Names that become paths of a run directory or a checkpoint.
#pragma once

#include <string_view>

namespace flow {

/// May a tensor, a step or a file be called so? Components of letters, digits, `_`, `.` and `:`,
/// separated by `/`, none of them empty or beginning with a dot: "lenet/conv1/weight:diff.1".
bool is_safe_name(std::string_view name);

/// May a key of a returned Dict be called so? One path component of any characters but `/`, and
/// not `.` or `..`.
bool is_safe_key(std::string_view key);

}  // namespace flow
