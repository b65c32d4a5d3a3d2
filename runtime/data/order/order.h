// The order in which an epoch reads the rows of a dataset. Only numbers of rows are held. An order
// is a function of its draws, so that a resumed run computes it again.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/order/draws.h"

namespace flow::data {

/// Writes a permutation of the rows 0 ... order.size() - 1.
void shuffle_rows(const EpochDraws& draws, std::span<int64_t> order);

/// Writes the order of a shuffle buffer of `buffer` rows through which the rows pass file by file.
/// `file_rows` are the numbers of rows of the files, which are read in random order if
/// `shuffle_files` is true. REQUIRES: the rows of all files are order.size(); buffer >= 1.
void shuffle_buffered(const EpochDraws& draws, int64_t buffer, bool shuffle_files,
                      std::span<const int64_t> file_rows, std::span<int64_t> order);

/// Draws rows of [0, rows) with replacement, all with the same probability. REQUIRES: rows >= 1.
void sample_uniform(const EpochDraws& draws, int64_t rows, std::span<int64_t> order);

/// Draws rows with replacement, with probabilities that are proportional to weights.
class WeightedSampler {
 public:
  /// `column` appears in messages. Throws RunError unless all weights are finite and not negative
  /// and their sum is finite and positive.
  WeightedSampler(std::span<const double> weights, std::string_view column);
  void sample(const EpochDraws& draws, std::span<int64_t> order) const;

 private:
  std::vector<double> sums_;  // the sum of the weights up to each row
};

/// Draws rows with replacement: first a class, all with the same probability, then one of its rows.
class BalancedSampler {
 public:
  /// `classes` are the class ids of the rows. REQUIRES: there is a row.
  explicit BalancedSampler(std::span<const int64_t> classes);
  void sample(const EpochDraws& draws, std::span<int64_t> order) const;

 private:
  std::vector<int64_t> rows_;    // sorted by class, then ascending
  std::vector<int64_t> starts_;  // the first index of each class in `rows_`, and their number
};

/// Returns for each position of an order how often its row occurs before. REQUIRES: the order has
/// rows of [0, rows) only, and fewer than 2^32.
std::vector<uint32_t> earlier_uses(std::span<const int64_t> order, int64_t rows);

}  // namespace flow::data
