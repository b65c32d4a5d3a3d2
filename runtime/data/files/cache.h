// The cache of a dataset: decoded columns as .npy files, and a record of what they were made from.
// A cache is used only if the record is equal to the present source. A run that is killed, or two
// runs that write at the same time, may leave an unused cache but never a wrong one.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/files/folder.h"
#include "runtime/io/rows.h"
#include "runtime/plan/json/json.h"

namespace flow::data {

/// What the values of a cache depend on.
struct CacheSource {
  std::string keys;              // digest of the keys of the dataset and its columns
  std::vector<FileState> files;  // all files of the dataset, in order
};

/// The columns of a cache, which have equal numbers of rows and are mapped.
struct CachedColumns {
  std::map<std::string, io::Rows> columns;
  Json details;  // what the writer added, such as the number of bad rows
};

/// Opens the cache of a dataset. Returns nothing if there is none, or if it is incomplete, damaged
/// or made from another source. Throws RunError if the record is not a regular file or cannot be
/// read.
std::optional<CachedColumns> open_cache(const fs::path& folder, const std::string& dataset,
                                        const CacheSource& source);

/// A column to be written.
struct CacheColumn {
  std::string name;
  DType dtype = DType::kFloat64;
  Shape row_shape;
};

/// Writes the files "DATASET.COLUMN.npy" and "DATASET.json" under temporary names, row by row. The
/// destructor removes files that were not committed.
class CacheWriter {
 public:
  /// Creates the folder if it is missing. Throws RunError if a file cannot be created. REQUIRES:
  /// the dataset has a name of the language, and so has each column, alone or with a second one
  /// after a dot.
  CacheWriter(const fs::path& folder, const std::string& dataset, const CacheSource& source,
              std::span<const CacheColumn> columns);
  ~CacheWriter();
  CacheWriter(const CacheWriter&) = delete;
  CacheWriter& operator=(const CacheWriter&) = delete;

  /// Adds a row to a column, whose index is that of the constructor's list. Throws RunError if the
  /// disk is full. REQUIRES: `row` has the bytes of a row.
  void append(size_t column, std::span<const std::byte> row);
  /// Renames all files, the record last, after their contents are on the disk. Throws RunError if
  /// that fails. REQUIRES: all columns have the same number of rows.
  void commit(const Json& details);

 private:
  class ColumnFile;

  fs::path folder_;
  std::string dataset_, record_;  // record_ is the text that describes the source
  std::vector<std::unique_ptr<ColumnFile>> files_;
};

}  // namespace flow::data
