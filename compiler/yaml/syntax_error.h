// Explains syntax errors such as the parser's "end of map not found".
#pragma once

#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/yaml/tokens.h"

namespace flow::yaml {

/// Reports the one mistake that most likely made the parser give up at `offset`.
void explain_syntax_error(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                          uint32_t offset, Diags& diags);

}  // namespace flow::yaml
