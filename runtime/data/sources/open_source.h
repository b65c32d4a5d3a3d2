// Opens the files of a column in the format of its source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Opens the files and checks their formats, sizes and checksums. Paths are relative to `root`.
/// Throws RunError if a file is missing, damaged or not of the column's format, or if its rows are
/// not column.row_shape. The message states column.where, the path, what was found and what was
/// expected.
std::shared_ptr<SourceRows> open_source(const plan::Column& column, const fs::path& root);

/// Opens the columns of a dataset, in their order. Columns that read the same files share them.
/// `read` are the columns that a job reads; the shape of other rows is not checked.
std::vector<std::shared_ptr<SourceRows>> open_sources(const plan::Dataset& dataset,
                                                      const std::vector<std::string>& read,
                                                      const fs::path& root);

/// Returns the rows of a source as the column augments them.
std::shared_ptr<SourceRows> augmented(const plan::Column& column,
                                      std::shared_ptr<SourceRows> source);

}  // namespace flow::data
