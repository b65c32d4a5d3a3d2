// Learns means, standard deviations, replacements and categories from the rows of a train job.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset/row_set.h"
#include "runtime/data/sources/chunked_sum.h"
#include "runtime/data/sources/learned.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// Returns true if the column has values that a train job learns.
bool needs_learning(const plan::Column& column);

/// Returns the name under which the column's values are kept: its own name with that of the
/// dataset, or that of the column from which it takes over values.
std::string learned_name(const plan::Dataset& dataset, const plan::Column& column);

/// Learns the values of a column from its rows `ranges[rows[i]]`. Mean and standard deviation are
/// those of x * scale, separately for each leading channel of a row: m = S / n and sqrt(Q / n),
/// where S adds x and Q adds (x - m)^2 (see ChunkedSum). Missing values do not count. A standard
/// deviation of 0 becomes 1 and adds a line to `remarks`. Throws RunError if a channel has no
/// value.
LearnedColumn learn(const plan::Column& column, const SourceRows& source, const RowRanges& ranges,
                    const RowSet& rows, std::vector<std::string>& remarks);

/// Throws RequestError if `values` lacks a value that the column needs. `name` is that of
/// learned_name().
void require_learned(const plan::Column& column, const std::string& name,
                     const LearnedColumn& values);

}  // namespace flow::data
