// The cached columns of a dataset: numbers and categories of CSV files, and decoded images.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/dataset/decode_pool.h"
#include "runtime/data/dataset/row_set.h"
#include "runtime/data/files/cache.h"
#include "runtime/data/sources/source_rows.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// A column that is open, and the rows of its source that it selects.
struct SelectedRows {
  std::shared_ptr<SourceRows> source;
  RowRanges ranges;
};

/// Reads and writes the cache of a dataset. It contains the selected rows, bad ones too, before
/// anything is learned or augmented.
class DatasetCache {
 public:
  /// Looks at the sizes and times of all files. Throws RunError if one is missing. REQUIRES:
  /// `dataset` names a cache and outlives this object.
  DatasetCache(const plan::Dataset& dataset, const fs::path& root);

  /// Opens the columns of the dataset, in their order: those that can be cached from the cache, and
  /// others from their files, with `read` as in open_sources(). Returns nothing if the cache cannot
  /// be used. Throws RunError if the other files cannot be read.
  std::optional<std::vector<SelectedRows>> open(const std::vector<std::string>& read) const;

  /// Writes the columns that can be cached. Each image is decoded once, by the threads of `pool`,
  /// which may be null. Throws RunError if images have different sizes, a file changed since the
  /// constructor looked at it, or the cache cannot be written. Writes nothing if no image can be
  /// decoded. REQUIRES: `columns` are those of the dataset and have equally many rows.
  void write(std::span<const SelectedRows> columns, DecodePool* pool) const;

 private:
  const plan::Dataset& dataset_;
  const fs::path root_, folder_;
  CacheSource source_;
};

}  // namespace flow::data
