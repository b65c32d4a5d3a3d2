// Programs by their names, as the system finds them.
#pragma once

#include <string>

namespace flow::io {

/// "did you mean `python3`?" for a name that no folder of PATH has; empty where none is like it.
std::string hint_for_program(const std::string& name);

}  // namespace flow::io
