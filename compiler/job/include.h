// `include:`: other files merged below the one that includes them, before anything is read.
#pragma once

#include <string>
#include <string_view>

#include "compiler/job/default_outputs.h"
#include "compiler/job/reader.h"

namespace flow::job {

/// What paths in a file are relative to: its directory as it is written, with its slash; empty, for
/// that of the program, where it has none or is a pipe.
std::string directory_of(std::string_view path);

/// Replaces `include:` of the top-level mapping `file`, which stands in source `reader.file`, by
/// what the files say: mappings are merged, deeply; of other values that of the including file, or
/// of the file that is included last, wins. Every value keeps its place in its own file. Keys that
/// the included files bring come first, in their order. `outputs` learns of every file.
void include_files(Reader& reader, yaml::Node& file, DefaultOutputs& outputs);

}  // namespace flow::job
