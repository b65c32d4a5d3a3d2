// Is this text at all? What must hold before anything looks for YAML in it.
#pragma once

#include "compiler/diag/diag.h"
#include "compiler/source/source.h"

namespace flow::yaml {

/// Reports a source that is too large, no UTF-8, or holds control characters (other than tabs and
/// line ends). False after an error.
bool check_text(const Sources& sources, int32_t id, Diags& diags);

}  // namespace flow::yaml
