// Columns of CSV files. Columns that read the same files are read together.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/csv/csv.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Returns the dialect of a column's files.
CsvDialect dialect_of(const plan::CsvFormat& format);

/// Returns true if both columns can be read together: they have the same files and dialect.
bool same_csv(const plan::Column& a, const plan::Column& b);

/// Opens CSV columns of the same files and dialect. Throws RunError as CsvSource::read().
std::vector<std::shared_ptr<SourceRows>> open_csv_columns(
    std::span<const plan::Column* const> columns, const fs::path& root);

}  // namespace flow::data
