// From text to a tree: what must hold before anything looks for YAML in a text, and its parsing.
#pragma once

#include "compiler/diag/diag.h"
#include "compiler/source/source.h"
#include "compiler/yaml/tree.h"
#include "runtime/base/file.h"

namespace flow::yaml {

/// A job file has at most this many bytes. Readers stop at one byte more.
constexpr size_t kLargestFile = size_t{4} << 20;

/// Reads until `text` has `most` bytes or the file ends; a pipe has no size.
void read_on(File& file, std::string& text, size_t most);

/// Reports a source that is too large, no UTF-8, or holds control characters (other than tabs and
/// line ends). False after an error.
bool check_text(const Sources& sources, int32_t id, Diags& diags);

/// Parses the text of source `id`. YAML that job files do not support is an error: duplicate keys,
/// keys without a value (also with `~` and `null`), a second document,
/// tabs outside quoted and block text, tags, anchors, aliases, complex keys, nesting beyond 64.
/// A syntax error is the only message. After other errors the tree contains what could be read.
/// `how_to_begin`: the hint for a file without a mapping.
Node parse(const Sources& sources, int32_t id, Diags& diags,
           const char* how_to_begin = "begin a job file with `flow: 1` and add `jobs:`");

}  // namespace flow::yaml
