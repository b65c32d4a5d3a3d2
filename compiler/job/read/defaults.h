// Defaults written out, or left out, all over a resolved file.
#pragma once

#include "compiler/job/text/reader.h"

namespace flow::job {

/// Adds every key whose default can be written. What depends on shapes, on names or on the number
/// of rows stays out. REQUIRES: the file has no errors.
void write_defaults(Reader& reader, yaml::Node& file);

/// Removes every key that equals its default, and shortens values that have a shorter form.
void drop_defaults(Reader& reader, yaml::Node& file);

}  // namespace flow::job
