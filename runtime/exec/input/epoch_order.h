// The order in which the epochs of a job read the rows of its datasets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset/dataset.h"
#include "runtime/data/order/order.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Computes the row at each position of an epoch from the run section of a job: the order of the
/// files, a permutation, a shuffle buffer, or draws with replacement. One epoch is held at a time.
class EpochOrder {
 public:
  /// `draws` is a prefix of the names of draws. `weights` is the dataset that has the column of
  /// `run.sampling`; null if there is none. Throws RunError if weights are invalid.
  EpochOrder(const plan::Run& run, data::Dataset& dataset, uint64_t seed, const std::string& draws,
             data::Dataset* weights);

  /// The number of rows that an epoch reads.
  int64_t rows() const { return rows_; }
  /// Makes `epoch` the current one.
  void begin(int64_t epoch);
  /// Returns the row at a position of the current epoch.
  int64_t row(int64_t position) const {
    return order_.empty() ? position : order_[static_cast<size_t>(position)];
  }
  /// Returns the row at a position of any epoch. Draws the order of the epoch again, because the
  /// current one may change meanwhile: any thread may call it.
  int64_t row_of(int64_t epoch, int64_t position) const;
  /// Returns how often that row occurs in the epoch before that position.
  uint32_t earlier_uses(int64_t position) const {
    return uses_.empty() ? 0 : uses_[static_cast<size_t>(position)];
  }

 private:
  void draw(const data::EpochDraws& draws, std::span<int64_t> order) const;

  const plan::Run& run_;
  uint64_t seed_;
  std::string name_;  // of the dataset, with the prefix of draws
  int64_t rows_, dataset_rows_;
  std::vector<int64_t> file_rows_;  // the number of rows of each file, for a shuffle buffer
  std::optional<data::WeightedSampler> weighted_;
  std::optional<data::BalancedSampler> balanced_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;  // empty if rows are read in their order
  std::vector<uint32_t> uses_;  // empty without replacement
};

}  // namespace flow::exec
