// Variables put into a whole file, as far as that can be without calling its networks.
#pragma once

#include "compiler/job/text/reader.h"
#include "compiler/job/text/vars.h"

namespace flow::job {

/// Substitutes variables outside graphs, which have more names.
void put_in(Variables& variables, yaml::Node& file);

/// Puts them into graphs too. What needs a param or `$index` stays as it is written, and so do the
/// `vars:` that it uses; the others go. An entry that reads the one above it says so where that is
/// another one in `file` now. Errors are those that reading the file reports.
void resolve(Reader& reader, yaml::Node& file);

}  // namespace flow::job
