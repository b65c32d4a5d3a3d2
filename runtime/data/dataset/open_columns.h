// The columns of a dataset while it is opened, and the rows of its parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/dataset/row_set.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// A column, and the source rows that `rows:` selects.
struct OpenColumn {
  const plan::Column& plan;
  std::shared_ptr<SourceRows> source;
  RowRanges ranges;
  bool is_read;  // whether the job reads it
};

/// Throws RunError if `rows:` selects rows that a source of that many rows does not have.
void check_ranges(const plan::Column& column, int64_t rows);

/// Throws RunError if the column has several means or standard deviations, but not one for each
/// leading channel of its rows.
void check_channels(const plan::Column& column);

/// Opens all columns. `read` are those that the job reads; the shape of other rows is not checked.
/// Throws RunError as open_sources, and if `rows:` selects rows that do not exist, or if a column
/// has another number of means or standard deviations than channels.
std::vector<OpenColumn> open_columns(const plan::Dataset& dataset,
                                     const std::vector<std::string>& read, const fs::path& root);

/// Returns the number of rows of each column. Throws RunError if the columns have different
/// lengths.
int64_t common_length(const plan::Dataset& dataset, const std::vector<OpenColumn>& columns);

/// Returns the rows of a part, or those of no part if its name is empty. `rows` are those of the
/// dataset that are not bad. Throws RunError if a part would have no rows.
RowSet rows_of_part(const plan::Dataset& dataset, const std::string& part,
                    const std::vector<OpenColumn>& columns, const RowSet& rows);

}  // namespace flow::data
