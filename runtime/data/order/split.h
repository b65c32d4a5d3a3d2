// Splits the rows of a dataset into parts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flow::data {

struct SplitPart {
  std::string name;
  double fraction = 0;  // in (0, 1); all fractions of a split add to less than 1
};

struct SplitOptions {
  std::vector<SplitPart> parts;
  uint64_t seed = 0;
};

/// The rows of each part, and of none of them, all in ascending order.
struct SplitRows {
  std::vector<std::vector<int64_t>> parts;
  std::vector<int64_t> rest;
};

// All functions throw RunError if a part or the rest would have no rows. `dataset` is the name of
// the dataset, which begins the name of the draw. A part of n rows has floor(fraction * n + 0.5)
// rows, or those that earlier parts leave.

/// Splits `rows` rows at random.
SplitRows split_random(const SplitOptions& options, std::string_view dataset, int64_t rows);

/// Splits off the last rows: the last part has the very last ones. The seed is ignored.
SplitRows split_last(const SplitOptions& options, std::string_view dataset, int64_t rows);

/// Splits the rows of each class at random, with the same fractions. `classes` are the class ids of
/// the rows.
SplitRows split_by(const SplitOptions& options, std::string_view dataset,
                   std::span<const int64_t> classes);

/// Splits groups at random, so that rows of equal `groups` are in one part. Fractions count groups.
SplitRows split_groups(const SplitOptions& options, std::string_view dataset,
                       std::span<const int64_t> groups);

}  // namespace flow::data
