// Declares the parsing of a text to a tree, and the checks that a text must pass before it is
// parsed.
#pragma once

#include "compiler/diag/diag.h"
#include "compiler/source/source.h"
#include "compiler/yaml/tree.h"
#include "runtime/base/file.h"

namespace flow::yaml {

/// The maximal size of a job file in bytes. Readers stop after one more byte.
constexpr size_t kLargestFile = size_t{4} << 20;

/// Reads until `text` has `most` bytes or the file ends. Works for pipes, which have no size.
void read_on(File& file, std::string& text, size_t most);

/// Reports a source that is too large, is not UTF-8, or contains control characters other than tabs
/// and line ends. Returns false after an error.
bool check_text(const Sources& sources, int32_t id, Diags& diags);

/// Parses the text of source `id`. Reports YAML that job files do not support: duplicate keys, keys
/// without a value (including `~` and `null`), a second document, tabs outside quoted and block
/// text, tags, anchors, aliases, complex keys, and nesting beyond 64 levels. A syntax error is the
/// only message. After other errors, the tree contains everything that could be read.
/// `how_to_begin` is the hint for a file without a mapping.
Node parse(const Sources& sources, int32_t id, Diags& diags,
           const char* how_to_begin = "begin a job file with `flow: 1` and add `jobs:`");

}  // namespace flow::yaml
