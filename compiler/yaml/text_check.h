// Is this text at all? What must hold before anything looks for YAML in it.
#pragma once

#include "compiler/diag/diag.h"
#include "compiler/source/source.h"
#include "runtime/base/file.h"

namespace flow::yaml {

/// A job file has at most this many bytes. Readers stop at one byte more.
constexpr size_t kLargestFile = size_t{4} << 20;

/// Reads until `text` has `most` bytes or the file ends; a pipe has no size.
void read_on(File& file, std::string& text, size_t most);

/// Reports a source that is too large, no UTF-8, or holds control characters (other than tabs and
/// line ends). False after an error.
bool check_text(const Sources& sources, int32_t id, Diags& diags);

}  // namespace flow::yaml
