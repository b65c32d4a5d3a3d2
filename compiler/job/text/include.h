// `include:`: other files merged below the one that includes them, before anything is read.
#pragma once

#include <string>
#include <string_view>

#include "compiler/job/text/default_outputs.h"
#include "compiler/job/text/reader.h"

namespace flow::job {

/// The directory that paths in a file are relative to, as written, with its slash. Empty for a file
/// without one and for a pipe: the working directory.
std::string directory_of(std::string_view path);

/// Merges the files of `include:` into the top-level mapping `file`, from source `reader.file`.
/// Mappings are merged deeply; other values of the including file, or of the last included file,
/// take precedence. Every value keeps its place in its own file. Keys of the included files come
/// first, in their order. `outputs` notes every file. False, after an error, when one cannot be
/// read: what it declares would only be missed elsewhere.
bool include_files(Reader& reader, yaml::Node& file, DefaultOutputs& outputs);

}  // namespace flow::job
