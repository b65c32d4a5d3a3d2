// `include:`: other files merged below the one that includes them, before anything is read.
#pragma once

#include "compiler/job/reader.h"

namespace flow::job {

/// Replaces `include:` of the top-level mapping `file`, which stands in source `reader.file`, by
/// what the files say: mappings are merged, deeply; of other values that of the including file, or
/// of the file that is included last, wins. Every value keeps its place in its own file. Keys that
/// the included files bring come first, in their order.
void include_files(Reader& reader, yaml::Node& file);

}  // namespace flow::job
