// Variables: `$name`, `$(expression)`, `$env(NAME:-default)` and `$$`, replaced in the whole tree
// before anything is read from it.
#pragma once

#include "compiler/job/reader.h"

namespace flow::job {

/// Replaces every use of a variable below the top-level mapping `file` by its value, `vars:`
/// itself included. A value that was put in whole keeps the place of its use at its top and the
/// places of its declaration below; `reader.origins` learns of both. Uses that are errors are
/// reported and left as they stand; declarations that nobody uses are warned of.
void substitute_variables(Reader& reader, yaml::Node& file);

}  // namespace flow::job
