// YAML events -> tree, with errors for YAML that job files do not support.
#pragma once

#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/yaml/tokens.h"
#include "compiler/yaml/tree.h"

namespace flow::yaml {

/// What the parser did with a text.
struct Parsed {
  Node root;
  bool empty = true;          // no value at all
  bool rest = false;          // there is more after the first document's value
  uint32_t rest_offset = 0;   // where
  bool too_deep = false;      // too many nested levels; reported by the last of `diags`
  bool syntax_error = false;  // the parser gave up
  uint32_t error_offset = 0;  // where
  std::vector<Span> pieces;   // values that are pieces of `splits`: they have no meaning
  std::vector<Diag> diags;    // of what was read
};

/// Reads the first document of source `id`. `splits`: unquoted expressions that commas split,
/// reported by the caller; their pieces are not reported.
Parsed build_tree(const Sources& sources, int32_t id, const std::vector<Token>& tokens,
                  const std::vector<Span>& splits);

}  // namespace flow::yaml
