// The files that a column reads.
#pragma once

#include <vector>

#include "runtime/base/file.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Returns the files of a column in the order of their rows, without those that only prepare rows,
/// such as a vocabulary. Paths are relative to `root`. Globs are expanded. Throws RunError if a
/// glob has no match, or if a folder of images cannot be read.
std::vector<fs::path> files_of(const plan::Column& column, const fs::path& root);

/// Returns the files that determine how rows are read: vocabularies and lists of categories.
std::vector<fs::path> helper_files_of(const plan::Column& column, const fs::path& root);

}  // namespace flow::data
