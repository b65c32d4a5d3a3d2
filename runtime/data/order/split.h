// Splits the rows of a dataset into parts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// The rows of each part, and of none of them, all in ascending order.
struct SplitRows {
  std::vector<std::vector<int64_t>> parts;
  std::vector<int64_t> rest;
};

// All functions throw RunError if a part or the rest would have no rows. `dataset` is the name of
// the dataset, which begins the name of the draw. A part of n rows has floor(fraction * n + 0.5)
// rows, or those that earlier parts leave.

/// Splits `rows` rows at random.
SplitRows split_random(const plan::Split& split, std::string_view dataset, int64_t rows);

/// Splits off the last rows: the last part has the very last ones. Returns the first row of each
/// part and, as the last element, the number of rows. The rest has the rows before the first part.
std::vector<int64_t> split_last(const plan::Split& split, std::string_view dataset, int64_t rows);

/// Splits the rows of each class at random, with the same fractions. `classes` are the class ids of
/// the rows.
SplitRows split_by(const plan::Split& split, std::string_view dataset,
                   std::span<const int64_t> classes);

/// Splits groups at random, so that rows of equal `groups` are in one part. Fractions count groups.
SplitRows split_groups(const plan::Split& split, std::string_view dataset,
                       std::span<const int64_t> groups);

}  // namespace flow::data
